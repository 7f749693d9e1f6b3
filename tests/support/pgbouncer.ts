import { execFileSync, spawn } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { freePort } from './postgres.ts';
import { programPath } from './programs.ts';

/** Where PgBouncer is on this machine; undefined says that tests which need it cannot run. */
export const pgbouncerPath = programPath('pgbouncer');

export interface Pooler {
  /** @returns the URL of the same database through the pooler. */
  readonly urlOf: (url: string) => string;
  readonly stop: () => Promise<void>;
}

/**
 * Starts PgBouncer in transaction mode in front of a server that asks for no password. Release 1.18 does not keep prepared
 * statements; a newer one is told not to.
 *
 * @param sessions how many the pooler has with each database.
 */
export async function startPgbouncer(serverUrl: string, sessions = 4): Promise<Pooler> {
  const { hostname, port: serverPort, username } = new URL(serverUrl);
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), 'postbud-pgbouncer-'));
  const file = join(folder, 'pgbouncer.ini');
  const [, minor] = /(\d+)\.\d+$/m.exec(execFileSync(pgbouncerPath!, ['--version'], { encoding: 'utf8' }))!;
  await writeFile(
    file,
    `[databases]
* = host=${hostname} port=${serverPort} user=${username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${sessions}
max_client_conn = 200
${Number(minor) < 21 ? '' : 'max_prepared_statements = 0'}
`,
  );
  // PgBouncer refuses to run as root.
  await chmod(folder, 0o755);
  const asUser = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const pooler = spawn(pgbouncerPath!, [...asUser, file], { stdio: 'ignore' });
  const exited = new Promise<void>((resolve) => pooler.once('exit', () => resolve()));
  const kill = () => pooler.kill('SIGKILL');
  process.once('exit', kill);
  while (!(await answers(port))) {
    if (pooler.exitCode !== null) throw new Error(`pgbouncer ended with ${pooler.exitCode}`);
  }
  return {
    urlOf(url) {
      const through = new URL(url);
      through.port = `${port}`;
      return through.toString();
    },
    async stop() {
      process.off('exit', kill);
      pooler.kill('SIGKILL');
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function answers(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

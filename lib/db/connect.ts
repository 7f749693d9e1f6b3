import { fileURLToPath } from 'node:url';

import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';
import type { PoolClient as NeonPoolClient } from '@neondatabase/serverless';
import type { attachDatabasePool as AttachDatabasePool } from '@vercel/functions';
import pTimeout from 'p-timeout';
import type { PoolClient } from 'pg';

import { InvalidConfiguration, readConfig } from '../config.ts';
import type { Config } from '../config.ts';
import { SECOND } from '../time.ts';
import * as schema from '../../drizzle/schema.ts';
import { reportDue, trackTransaction } from './commits.ts';
import type { OpenTransaction } from './commits.ts';
import { beginLate } from './late-begin.ts';
import type { LateConnection } from './late-begin.ts';
import { driverOf, runsOn } from './statement.ts';

/**
 * A Drizzle database on any of the three drivers. Its `transaction` begins together with its first statement, in one
 * round trip, and reports commits that made deliveries due; see `onDue`.
 */
export type Database = PgDatabase<PgQueryResultHKT, typeof schema> & { $client: unknown };

/** The transaction that `db.transaction` hands to its callback. */
export type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0];

/** The settings that `db.transaction` takes. */
type TransactionConfig = Parameters<Database['transaction']>[1];

export interface Connection {
  readonly db: Database;
  /** Ends the connections, or the embedded database. */
  readonly close: () => Promise<void>;
}

interface Driver extends Connection {
  migrate(folder: string): Promise<void>;
  /** Runs a transaction whose connection is cut when the signal aborts, whatever runs on it at that moment. */
  transact<Result>(run: Run<Result>, signal?: AbortSignal, config?: TransactionConfig): Promise<Result>;
}

type Run<Result> = (tx: Transaction) => Promise<Result>;

const drivers = new WeakMap<object, Driver>();

/**
 * Opens a database and returns its Drizzle handle.
 *
 * @param url `postgres://…` through `pg`, or through Neon's driver for a `*.neon.tech` host or with
 *   `DATABASE_DRIVER=neon`; `memory://` for an embedded one in memory. By default `DATABASE_URL`; without that, the
 *   embedded database in `DATA_DIR`.
 * @throws InvalidConfiguration when the url is none of these. When the database is down, the first statement throws.
 */
export async function connect(url?: string): Promise<Connection> {
  const { database } = readConfig(url === undefined ? {} : { DATABASE_URL: url });
  const driver = await openDriver(database);
  const { db } = driver;
  drivers.set(db, driver);
  db.transaction = async (body, config) => {
    const open: OpenTransaction = { madeDue: false };
    const result = await driver.transact((tx) => body(track(tx, open)), undefined, config);
    if (open.madeDue) reportDue(db);
    return result;
  };
  const close = async () => {
    await Promise.all([...(endings.get(db) ?? [])].map(async (end) => await end()));
    await driver.close();
  };
  return { db, close };
}

const endings = new WeakMap<Database, Set<() => Promise<void>>>();

/** Has work that is still to be written done when the database is closed. @param end never rejects. */
export function beforeClose(db: Database, end: () => Promise<void>): void {
  const known = endings.get(db) ?? new Set();
  endings.set(db, known.add(end));
}

function track(tx: Transaction, open: OpenTransaction): Transaction {
  trackTransaction(tx, open);
  const nest = tx.transaction.bind(tx);
  tx.transaction = (body) => nest((inner) => body(track(inner, open)));
  return tx;
}

/**
 * Runs the missing migrations and publishes the catalog for `postbud_emit`. Safe to call at every start, from several
 * processes at once, and while functions run: the migrations are one transaction, which gives up on a table that is in use
 * instead of making other statements wait.
 *
 * @throws an error with the code 55P03 when it gave up; nothing has changed then.
 */
export async function migrate(db: Database): Promise<void> {
  await driverFor(db).migrate(fileURLToPath(new URL('../../drizzle/migrations', import.meta.url)));
  // Functions, which never migrate, do not load it.
  const { publishCatalog } = await import('./publish-catalog.ts');
  await publishCatalog(driverOf(db));
}

/**
 * Runs a transaction that can be cut off: when `signal` aborts, nothing that the callback still does reaches the
 * database. Commits here are not reported to `onDue`: it is the relay that calls this, and it looks again by itself.
 *
 * @throws the signal's reason; TransactionNotBegun; or the error of the callback or the commit. A connection lost at
 *   the commit leaves the outcome unknown.
 */
export async function transact<Result>(
  db: Database,
  body: Run<Result>,
  signal: AbortSignal,
): Promise<Result> {
  return await driverFor(db).transact(body, signal);
}

async function openDriver(database: Config['database']): Promise<Driver> {
  switch (database.kind) {
    case 'embedded':
      return await embedded(database.dataDir);
    case 'neon':
      return await neon(database.url);
    case 'postgres':
      return await postgres(database.url);
    case 'none':
      throw new InvalidConfiguration(
        'DATABASE_URL',
        'must be set to the URL of the Postgres database, for example postgres://postbud@db.example.no/postbud',
      );
  }
}

function driverFor(db: Database): Driver {
  const driver = drivers.get(db);
  if (!driver) throw new TypeError('expected a database returned by connect()');
  return driver;
}

async function postgres(url: string): Promise<Driver> {
  const [{ default: pg }, { drizzle }, { migrate: migrateTables }] = await Promise.all([
    import('pg'),
    import('drizzle-orm/node-postgres'),
    import('drizzle-orm/node-postgres/migrator'),
  ]);
  const pool = new pg.Pool({ connectionString: url, ...POOL });
  const db = drizzle({ client: pool, schema });
  return await pooled<PoolClient>(
    pool,
    db,
    (client) => drizzle(client, { schema }),
    (client, folder) => migrateTables(drizzle(client, { schema }), { migrationsFolder: folder }),
  );
}

async function neon(url: string): Promise<Driver> {
  const [{ Pool: NeonPool, neonConfig }, { drizzle }, { migrate: migrateTables }] = await Promise.all([
    import('@neondatabase/serverless'),
    import('drizzle-orm/neon-serverless'),
    import('drizzle-orm/neon-serverless/migrator'),
  ]);
  // Node gained a WebSocket of its own in version 22.
  if (!('WebSocket' in globalThis)) neonConfig.webSocketConstructor = (await import('ws')).default;
  const pool = new NeonPool({ connectionString: url, ...POOL });
  const db = drizzle({ client: pool, schema });
  return await pooled<NeonPoolClient>(
    pool,
    db,
    (client) => drizzle(client, { schema }),
    (client, folder) => migrateTables(drizzle(client, { schema }), { migrationsFolder: folder }),
  );
}

// A function instance serves requests side by side but lives briefly: few connections, and none idle for long. They are
// probed, so that a connection whose other end is gone frees its place.
const POOL = {
  max: 10,
  idleTimeoutMillis: 5 * SECOND,
  connectionTimeoutMillis: 5 * SECOND,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10 * SECOND,
};

/** How long a migration waits for a table. Other statements on that table wait behind it. */
const MIGRATION_PATIENCE_MS = 3 * SECOND;

/** The part of a pool that `pg` and Neon's driver share. */
interface AnyPool<Client> {
  connect(): Promise<Client>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'connect', listener: (client: Client) => void): unknown;
}

async function pooled<
  Client extends {
    release(destroy?: boolean): void;
    query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
    on(event: 'error', listener: (error: Error) => void): unknown;
  },
>(
  pool: AnyPool<Client> & Parameters<typeof AttachDatabasePool>[0],
  db: Database,
  on: (client: Client) => Database,
  migrateTables: (client: Client, folder: string) => Promise<void>,
): Promise<Driver> {
  // An idle connection that the server closes must not end the process; the next statement opens another one.
  pool.on('error', () => undefined);
  // Nor must a connection lost in the middle of a transaction, whose statements reject anyway.
  pool.on('connect', (client) => client.on('error', () => undefined));
  const { attachDatabasePool } = await import('@vercel/functions');
  // Kept, because Drizzle reads the whole schema for each handle.
  const handles = new WeakMap<Client, LateConnection<Client> & { readonly handle: Database }>();
  const lateOf = (connection: Client) => {
    const known = handles.get(connection);
    if (known) return known;
    const late = beginLate(connection);
    const opened = { ...late, handle: on(late.client) };
    handles.set(connection, opened);
    return opened;
  };
  attachDatabasePool(pool);
  return {
    db,
    close: () => pool.end(),
    async migrate(folder) {
      const client = await pool.connect();
      try {
        await client.query('select pg_advisory_lock(7, 1)');
        await client.query(`set lock_timeout = '${MIGRATION_PATIENCE_MS}ms'`);
        await migrateTables(client, folder);
      } finally {
        // Ends the session, and with it the lock and the setting.
        client.release(true);
      }
    },
    async transact(body, signal, config) {
      signal?.throwIfAborted();
      const connection = await pool.connect();
      const { client, handle, lost } = lateOf(connection);
      try {
        const transacted = handle.transaction(async (tx) => {
          runsOn(tx, client);
          return await body(tx);
        }, config);
        const result = await cutOff(transacted, signal);
        connection.release();
        return result;
      } catch (error) {
        connection.release(signal?.aborted === true || lost() !== undefined);
        throw lost() ?? error;
      }
    },
  };
}

async function embedded(dataDir: string): Promise<Driver> {
  const [{ PGlite }, { drizzle }, { migrate: migrateTables }] = await Promise.all([
    import('@electric-sql/pglite'),
    import('drizzle-orm/pglite'),
    import('drizzle-orm/pglite/migrator'),
  ]);
  const client = new PGlite(dataDir);
  const db = drizzle({ client, schema });
  // Drizzle's own: connect() replaces it.
  const transaction = db.transaction.bind(db);
  return {
    db,
    close: () => client.close(),
    migrate: (folder) => migrateTables(db, { migrationsFolder: folder }),
    // PGlite refuses statements on a finished transaction, so rejecting the callback cuts it off.
    transact: (body, signal, config) =>
      transaction((tx) => {
        signal?.throwIfAborted();
        return cutOff(body(tx), signal);
      }, config),
  };
}

/** Rejects with the signal's reason when it aborts first. */
async function cutOff<Result>(running: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  return await (signal ? pTimeout(running, { milliseconds: Infinity, signal }) : running);
}

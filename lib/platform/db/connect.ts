import type { PgliteClient } from 'drizzle-orm/pglite';
import type { PoolClient as NeonPoolClient } from '@neondatabase/serverless';
import type { attachDatabasePool as AttachDatabasePool } from '@vercel/functions';
import pTimeout from 'p-timeout';
import type { PoolClient } from 'pg';

import { InvalidConfiguration, readConfig } from '../config.ts';
import type { Config } from '../config.ts';
import { codeOf } from '../log.ts';
import { OpenTransaction, reportDue, reportSent, trackTransaction } from './commits.ts';
import type { Database, Transaction } from './database.ts';
import { Deadlines } from './deadlines.ts';
import { lenderOf, runBody } from './lender.ts';
import type { Body, NewTransaction } from './lender.ts';
import { withPlainErrors } from './plain-errors.ts';
import { isAnswer, openConnection } from './pooled-connection.ts';
import type { PooledConnection } from './pooled-connection.ts';
import { KEPT_IN_FUNCTIONS_MS, KEPT_IN_SERVERS_MS, openPools } from './pools.ts';
import type { Pools } from './pools.ts';
import { PreparedNames } from './prepared-names.ts';
import { runAgain } from './run-again.ts';
import { alone, ANSWER_LIMIT_MS, run, sendsBy } from './statement.ts';
import type { Sender, Statement } from './statement.ts';
import { explained } from './surroundings.ts';
import { failingWithErrors } from './web-socket-errors.ts';

export type { Database, Transaction } from './database.ts';

/** The settings that `db.transaction` takes. */
type TransactionConfig = Parameters<Database['transaction']>[1];

export interface Connection {
  readonly db: Database;
  /** Ends the connections, or the embedded database. */
  readonly close: () => Promise<void>;
}

interface Driver extends Connection {
  /** Sends a statement that runs alone. */
  send(statement: Statement): Promise<{ rows: unknown[] }>;
  /** Runs a transaction once. */
  transact<Result>(body: Body<Result>, options?: TransactOptions): Promise<Result>;
}

interface TransactOptions {
  /** Cuts the connection when it aborts, whatever runs on it at that moment. */
  readonly signal?: AbortSignal;
  readonly config?: TransactionConfig;
  /** Called when the commit is sent. An embedded database, which has one connection, does not call it. */
  readonly onSent?: () => void;
  /** How long each statement may wait for its answer; see `limitStatements`. */
  readonly limitMs?: number;
}

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
  const { database, deployed } = readConfig(url === undefined ? {} : { DATABASE_URL: url });
  const driver = await openDriver(database, deployed ? KEPT_IN_FUNCTIONS_MS : KEPT_IN_SERVERS_MS);
  const { db } = driver;
  drivers.set(db, driver);
  const sender = senderOf(driver);
  sendsBy(db, sender);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a pool or an embedded database
  sendsBy(db.$client as object, sender);
  db.transaction = async (body, config) => {
    let open: OpenTransaction;
    const once = () => {
      const opened = (open = new OpenTransaction());
      const onSent = () => reportSent(db, opened);
      return driver.transact((tx) => body(track(tx, opened)), { config, onSent });
    };
    const result = await explained(driver, () => runAgain(once));
    if (open!.isDue) reportDue(db, open!);
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

/** Has `open` note what is emitted in a transaction, and in those nested in it. */
export function track(tx: Transaction, open: OpenTransaction): Transaction {
  trackTransaction(tx, open);
  const nest = tx.transaction.bind(tx);
  tx.transaction = (body) => nest((inner) => body(track(inner, open)));
  return tx;
}

/** SQLSTATE of our functions that decide by what is true now, and so refuse to run in another isolation. */
const WRONG_ISOLATION = 'PB003';

/**
 * Sends statements that run alone, which take the isolation that the session has by default: a setting of the session
 * would pass on to others behind a pooler, and so would take a round trip of its own. Where one is refused for its
 * isolation, it is sent in a transaction from then on.
 */
function senderOf(driver: Driver): Sender {
  const inTransactions = new Set<string>();
  const once = async (statement: Statement): Promise<{ rows: unknown[] }> => {
    const { text, limitMs = ANSWER_LIMIT_MS } = statement;
    if (!inTransactions.has(text)) {
      try {
        return await driver.send(statement);
      } catch (error) {
        if (codeOf(error) !== WRONG_ISOLATION) throw error;
        inTransactions.add(text);
      }
    }
    return await driver.transact(async (tx) => ({ rows: await run(tx, statement) }), { limitMs });
  };
  return { send: (statement) => explained(driver, () => runAgain(() => once(statement))) };
}

/**
 * Runs a transaction that can be cut off: when `signal` aborts, nothing that the callback still does reaches the
 * database. The callback runs again as that of `db.transaction` does.
 *
 * Commits here are not reported to `onDue`.
 *
 * @throws the signal's reason; or the error of the callback or the commit.
 */
export async function transact<Result>(
  db: Database,
  body: Body<Result>,
  signal: AbortSignal,
): Promise<Result> {
  const driver = driverFor(db);
  return await explained(driver, () => runAgain(() => driver.transact(body, { signal })));
}

/**
 * Runs a transaction of handlers, whose time limits abort the signal. The callback runs once, and only the signal limits
 * how long a statement may take.
 *
 * The transaction is deferrable, which has no effect on one that writes, and says that it is still this one: a handler that
 * had ended it would be in none, or in one that is not.
 *
 * @throws the signal's reason; TransactionNotBegun; or the error of the callback or the commit. A connection lost at
 *   the commit leaves the outcome unknown.
 */
export async function transactOnce<Result>(
  db: Database,
  body: Body<Result>,
  signal: AbortSignal,
): Promise<Result> {
  return await driverFor(db).transact(body, { signal, limitMs: Infinity, config: { deferrable: true } });
}

async function openDriver(database: Config['database'], idleMs: number): Promise<Driver> {
  switch (database.kind) {
    case 'embedded':
      return await embedded(database.dataDir);
    case 'neon':
      return await neon(database.url, idleMs);
    case 'postgres':
      return await postgres(database.url, idleMs);
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

async function postgres(url: string, idleMs: number): Promise<Driver> {
  const [{ default: pg }, { drizzle, NodePgSession, NodePgTransaction }, { PgDialect }] = await Promise.all([
    import('pg'),
    import('drizzle-orm/node-postgres'),
    import('drizzle-orm/pg-core'),
  ]);
  const pools = openPools(idleMs, (options) => new pg.Pool({ connectionString: url, ...options }));
  const dialect = new PgDialect();
  const db = Object.assign(drizzle({ client: alone(pools.any) }), { $client: pools.any });
  return await pooled<PoolClient>(pools, db, (client, depth) => {
    const session = withPlainErrors(new NodePgSession<NoSchema, NoSchema>(client, dialect, undefined));
    return new NodePgTransaction(dialect, session, undefined, depth);
  });
}

async function neon(url: string, idleMs: number): Promise<Driver> {
  const [{ Pool: NeonPool, neonConfig }, { drizzle, NeonSession, NeonTransaction }, { PgDialect }] =
    await Promise.all([
      import('@neondatabase/serverless'),
      import('drizzle-orm/neon-serverless'),
      import('drizzle-orm/pg-core'),
    ]);
  // Node gained a WebSocket of its own in version 22.
  const socket = 'WebSocket' in globalThis ? globalThis.WebSocket : (await import('ws')).default;
  neonConfig.webSocketConstructor = failingWithErrors(socket);
  const pools = openPools(idleMs, (options) => new NeonPool({ connectionString: url, ...options }));
  const dialect = new PgDialect();
  const db = Object.assign(drizzle({ client: alone(pools.any) }), { $client: pools.any });
  return await pooled<NeonPoolClient>(pools, db, (client, depth) => {
    const session = withPlainErrors(new NeonSession<NoSchema, NoSchema>(client, dialect, undefined));
    return new NeonTransaction(dialect, session, undefined, depth);
  });
}

type NoSchema = Record<string, never>;

/** The part of a pool that `pg` and Neon's driver share. */
interface AnyPool<Client> {
  connect(): Promise<Client>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'connect', listener: (client: Client) => void): unknown;
}

/** @param newTransaction makes a transaction of a connection. */
async function pooled<
  Client extends object & {
    release(destroy?: boolean): void;
    on(event: 'error', listener: (error: Error) => void): unknown;
  },
>(
  pools: Pools<AnyPool<Client> & Parameters<typeof AttachDatabasePool>[0]>,
  db: Database,
  newTransaction: NewTransaction<Client>,
): Promise<Driver> {
  const { attachDatabasePool } = await import('@vercel/functions');
  for (const pool of [pools.any, pools.turns]) {
    // An idle connection that the server closes must not end the process; the next statement opens another one.
    pool.on('error', () => undefined);
    // Nor must a connection lost in the middle of a transaction, whose statements reject anyway.
    pool.on('connect', (client) => client.on('error', () => undefined));
    attachDatabasePool(pool);
  }
  withPlainErrors(db._.session);
  const names = new PreparedNames();
  const deadlines = new Deadlines();
  const opened = new WeakMap<Client, PooledConnection<Client>>();
  const open = (connection: Client) => {
    const known = openConnection(connection, names, deadlines);
    opened.set(connection, known);
    return known;
  };
  const take = async (limitMs: number, pool = pools.any) => {
    const connection = await pool.connect();
    const known = opened.get(connection) ?? open(connection);
    known.limitAnswers(limitMs);
    return known;
  };
  return {
    db,
    close: async () => void (await Promise.all([pools.any.end(), pools.turns.end()])),
    async send(statement) {
      const { limitMs = ANSWER_LIMIT_MS, isTurn } = statement;
      const { connection, sender, keep, lost } = await take(limitMs, isTurn ? pools.turns : pools.any);
      // What a turn writes is done again after a crash.
      if (!isTurn) keep();
      try {
        const result = await sender.send(statement);
        connection.release();
        return result;
      } catch (error) {
        connection.release(!isAnswer(error) || lost() !== undefined);
        throw error;
      }
    },
    async transact(body, { signal, config, onSent, limitMs = ANSWER_LIMIT_MS } = {}) {
      signal?.throwIfAborted();
      const { connection, client, sender, lost, begin, end } = await take(limitMs);
      // It may have aborted while all connections were taken.
      if (signal?.aborted) connection.release();
      signal?.throwIfAborted();
      const transacted = async () => {
        begin(beginOf(config));
        try {
          const result = await runBody(body, lenderOf(newTransaction, client, sender));
          const committed = end('commit');
          try {
            onSent?.();
          } finally {
            await committed;
          }
          return result;
        } catch (error) {
          await end('rollback');
          throw error;
        }
      };
      try {
        const result = await cutOff(transacted(), signal);
        connection.release();
        return result;
      } catch (error) {
        connection.release(signal?.aborted === true || lost() !== undefined);
        throw lost() ?? error;
      }
    },
  };
}

function beginOf(config: TransactionConfig): string {
  const { isolationLevel, accessMode, deferrable } = { ...READ_COMMITTED, ...config };
  const modes = [`begin isolation level ${isolationLevel}`];
  if (accessMode) modes.push(accessMode);
  if (deferrable !== undefined) modes.push(deferrable ? 'deferrable' : 'not deferrable');
  return modes.join(' ');
}

/** Whatever the database, the role or the URL sets: what the bus decides by must be true now. */
const READ_COMMITTED = { isolationLevel: 'read committed' } as const;

async function embedded(dataDir: string): Promise<Driver> {
  const [{ PGlite }, { drizzle, PgliteSession, PgliteTransaction }, { PgDialect }] = await Promise.all([
    import('@electric-sql/pglite'),
    import('drizzle-orm/pglite'),
    import('drizzle-orm/pg-core'),
  ]);
  const client = new PGlite(dataDir);
  const db = drizzle({ client });
  const dialect = new PgDialect();
  const newTransaction: NewTransaction<object> = (opened, depth) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- PGlite's own transaction, as Drizzle itself takes it
    const session = new PgliteSession<NoSchema, NoSchema>(opened as PgliteClient, dialect, undefined);
    withPlainErrors(session);
    return new PgliteTransaction(dialect, session, undefined, depth);
  };
  return {
    db,
    close: () => client.close(),
    send: ({ text, values }) => client.query(text, [...values]),
    // PGlite refuses statements on a finished transaction, so rejecting the callback cuts it off.
    transact: (body, { signal, config } = {}) =>
      client.transaction(async (opened) => {
        signal?.throwIfAborted();
        await opened.exec(beginOf(config).replace('begin', 'set transaction'));
        const sender: Sender = { send: ({ text, values }) => opened.query(text, [...values]) };
        return await cutOff(runBody(body, lenderOf(newTransaction, opened, sender)), signal);
      }),
  };
}

/** Rejects with the signal's reason when it aborts first. */
async function cutOff<Result>(running: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  return await (signal ? pTimeout(running, { milliseconds: Infinity, signal }) : running);
}

import { isConflict, jitterMs, MOST_RUNS } from '../../platform/conflict.ts';
import { Gate, TransactionCommand } from '../../platform/gate.ts';
import { sleep } from '../../platform/time.ts';
import type { Client } from '../clients/adapters.ts';

/** A database that the receiver can open transactions in, described by what it has, so that no driver is imported. */
export type ReceiverDatabase = PoolLike | DrizzleLike | PgliteLike | OtherDatabase;

/** The pool of `pg` or of Neon's driver. */
interface PoolLike {
  connect(): Promise<PoolClient>;
}

interface PoolClient extends Queries {
  release(destroy?: boolean): void;
  on(event: 'error', listener: () => void): unknown;
  off(event: 'error', listener: () => void): unknown;
}

interface Queries {
  query(text: string): PromiseLike<unknown>;
}

/** Each has a type of transaction of its own; see `TransactionOf`. */
interface DatabaseLike {
  transaction(...parameters: never[]): Promise<unknown>;
}

interface DrizzleLike extends DatabaseLike {
  execute(query: never): PromiseLike<unknown>;
  /** Neon's driver over HTTP has batches in place of transactions. */
  readonly batch?: never;
}

interface PgliteLike extends DatabaseLike {
  exec(query: string): Promise<unknown>;
}

/** A database of another client; see `databaseOf`. */
interface OtherDatabase extends DatabaseLike {
  queriesOf(tx: never): Queries;
}

interface DatabaseOf<Tx> {
  transaction(run: (tx: Tx) => Promise<void>): Promise<unknown>;
  queriesOf(tx: Tx): Queries;
}

/**
 * Describes the database of another client to the receiver. Handlers get the client's own transaction:
 * `databaseOf<Transaction<Tables>>((run) => kysely.transaction().execute(run), fromKysely)`.
 *
 * @param transaction runs a transaction, which is committed when `run` resolves and rolled back when it rejects.
 * @param clientOf one of the adapters that `emit` takes such a transaction through.
 */
export function databaseOf<Tx>(
  transaction: (run: (tx: Tx) => Promise<void>) => PromiseLike<unknown>,
  clientOf: (tx: Tx) => Client,
): DatabaseOf<Tx> {
  return {
    transaction: async (run) => await transaction(run),
    queriesOf: (tx) => ({ query: (text) => clientOf(tx).query(text, []) }),
  };
}

/** The transaction that such a database hands to handlers: Drizzle's, or the pool's client. */
export type TransactionOf<Database> = Database extends {
  transaction(run: (tx: infer Transaction) => Promise<unknown>): Promise<unknown>;
}
  ? Transaction
  : Database extends { connect: { (): Promise<infer Client>; (callback: infer _Callback): unknown } }
    ? Client
    : Database extends { connect(): Promise<infer Client> }
      ? Client
      : never;

/** An open transaction: what handlers get, which ends before it, and a way to run statements in it. */
export interface OpenTransaction {
  readonly tx: unknown;
  /** @returns the rows. The text is sent as it is, without parameters, which Drizzle does not take with a text. */
  readonly run: (text: string) => Promise<readonly unknown[]>;
}

/** The transaction did not begin, for example because the database is down. */
export class NotBegun extends Error {
  constructor(cause: unknown) {
    super('the transaction did not begin', { cause });
    this.name = 'NotBegun';
  }
}

/** A statement failed and the handler went on without telling: Postgres would roll back in place of the commit. */
class TransactionAborted extends Error {
  readonly code = 'transaction_aborted';

  constructor() {
    super('a statement of the handler failed, so its transaction cannot be committed: let the error through');
    this.name = 'TransactionAborted';
  }
}

/**
 * Runs a transaction in READ COMMITTED, whatever the database's default is; when it resolves, it is committed. After a
 * conflict with another transaction it runs again at once, a few times.
 *
 * @throws NotBegun; the error of `body` or of the commit, after which nothing is committed unless the connection was lost at
 *   the commit.
 */
export async function inTransaction<Result>(
  database: ReceiverDatabase,
  body: (open: OpenTransaction) => Promise<Result>,
): Promise<Result> {
  const once = async () =>
    'transaction' in database ? await inTransactionOf(database, body) : await onClientOf(database, body);
  for (let run = 1; ; run += 1) {
    try {
      return await once();
    } catch (error) {
      if (run === MOST_RUNS || !isConflict(error)) throw error;
      await sleep(jitterMs(run));
    }
  }
}

/** @throws TypeError for what is no such database, with an example. */
export function requireDatabase(database: unknown): void {
  const given: object = typeof database === 'object' && database !== null ? database : {};
  const has = (name: string) => typeof Reflect.get(given, name) === 'function';
  // Neon's driver over HTTP has batches in place of transactions; a client, other than a pool, escapes literals.
  const isTransactional = has('transaction')
    ? has('queriesOf') || has('exec') || (has('execute') && !has('batch'))
    : has('connect') && !has('escapeLiteral');
  if (isTransactional) return;
  throw new TypeError(
    "database: expected the Pool of 'pg' or of '@neondatabase/serverless', or a Drizzle database that has transactions, for example new Pool({ connectionString }). Describe another client's by databaseOf, for example databaseOf((run) => kysely.transaction().execute(run), fromKysely)",
  );
}

async function inTransactionOf<Result>(
  database: Exclude<ReceiverDatabase, PoolLike>,
  body: (open: OpenTransaction) => Promise<Result>,
): Promise<Result> {
  let hasBegun = false;
  let result: { readonly of: Result } | null = null;
  try {
    const transactions: Transactions = database;
    await transactions.transaction(async (tx) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the transaction that it began
      const statements = 'queriesOf' in database ? database.queriesOf(tx as never) : tx;
      const run = async (text: string) => rowsOf(await execute(statements, text));
      // Only Drizzle takes settings of a transaction.
      if (!('execute' in statements)) await run(`set transaction ${READ_COMMITTED}`);
      hasBegun = true;
      const gate = new Gate();
      result = { of: await body({ tx: before(gate, tx), run }).finally(() => gate.close()) };
      // Drizzle does not tell that a commit was answered with a rollback; a statement in such a transaction fails.
      const [still] = await run(IS_STILL_OURS).catch((cause: unknown) => {
        throw Object.assign(new TransactionAborted(), { cause });
      });
      requireOurs(still);
    }, DRIZZLE_READ_COMMITTED);
  } catch (error) {
    throw hasBegun ? error : new NotBegun(error);
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- TypeScript does not see the assignment in the callback
  return (result as unknown as { readonly of: Result }).of;
}

/** Deferrable has no effect on a transaction that writes, and says that it is still this one. */
const READ_COMMITTED = 'isolation level read committed deferrable';

const DRIZZLE_READ_COMMITTED = { isolationLevel: 'read committed', deferrable: true } as const;

const IS_STILL_OURS = "select current_setting('transaction_deferrable') as deferrable";

/** @throws TransactionCommand when the handler has ended the transaction, so that this is another one or none. */
function requireOurs(still: unknown): void {
  if (typeof still === 'object' && still !== null && 'deferrable' in still && still.deferrable === 'on')
    return;
  throw new TransactionCommand('the handler has ended its transaction');
}

/** Makes a transaction of Drizzle whose statements pass a gate. Those of other clients know their own end. */
function before(gate: Gate, tx: object): unknown {
  if (!('session' in tx)) return tx;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- through which Drizzle sends each statement
  const session = tx.session as { prepareQuery(query: { sql: string }, ...rest: unknown[]): unknown };
  const prepareQuery = (query: { sql: string }, ...rest: unknown[]) => {
    gate.pass(query.sql);
    return session.prepareQuery(query, ...rest);
  };
  const gated: unknown = Object.create(session, { prepareQuery: { value: prepareQuery } });
  return Object.create(tx, { session: { value: gated } });
}

interface Transactions {
  transaction(
    run: (tx: Statements) => Promise<void>,
    settings: typeof DRIZZLE_READ_COMMITTED,
  ): Promise<unknown>;
}

type Statements = { execute(text: string): PromiseLike<unknown> } | Queries;

function execute(tx: Statements, text: string): PromiseLike<unknown> {
  return 'execute' in tx ? tx.execute(text) : tx.query(text);
}

async function onClientOf<Result>(
  pool: PoolLike,
  body: (open: OpenTransaction) => Promise<Result>,
): Promise<Result> {
  const client = await begin(pool);
  const gate = new Gate();
  try {
    const result = await body({
      tx: gate.before(client),
      run: async (text) => rowsOf(await client.query(text)),
    }).finally(() => gate.close());
    const committed = await client.query('commit');
    if (isRollback(committed)) throw new TransactionAborted();
    letGo(client, false);
    return result;
  } catch (error) {
    const isRolledBack = await client.query('rollback').then(
      () => true,
      () => false,
    );
    letGo(client, !isRolledBack);
    throw error;
  }
}

/** @throws NotBegun */
async function begin(pool: PoolLike): Promise<PoolClient> {
  const client = await pool.connect().catch((error: unknown) => {
    throw new NotBegun(error);
  });
  // Without a listener, a connection lost between two statements would end the process. The next statement rejects.
  client.on('error', ignore);
  try {
    await client.query(`begin ${READ_COMMITTED}`);
    return client;
  } catch (error) {
    letGo(client, true);
    throw new NotBegun(error);
  }
}

function letGo(client: PoolClient, destroy: boolean): void {
  client.off('error', ignore);
  client.release(destroy);
}

const ignore = () => undefined;

/** Whether Postgres answered a commit by rolling back, which it does after a failed statement, without an error. */
function isRollback(committed: unknown): boolean {
  return (
    typeof committed === 'object' &&
    committed !== null &&
    'command' in committed &&
    committed.command === 'ROLLBACK'
  );
}

/** Most drivers answer with an object that has the rows; a few with the rows themselves. */
function rowsOf(answer: unknown): readonly unknown[] {
  if (Array.isArray(answer)) return answer;
  const rows = typeof answer === 'object' && answer !== null && 'rows' in answer ? answer.rows : null;
  return Array.isArray(rows) ? rows : [];
}

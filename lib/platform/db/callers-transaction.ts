// How `emit`, `record` and `cancelTimer` know that they are in a transaction: what they write would otherwise survive the
// rollback of the work that it reports.

/** A transaction: Drizzle's, one that an adapter made a client of, or the client of `pg`, Neon or PGlite that is in one. */
export type Transaction = DrizzleTransaction | DriverTransaction;

/** A database of Drizzle has no `rollback`. */
interface DrizzleTransaction {
  /** Every copy of Drizzle takes an `SQLWrapper` of its own; the `never` accepts them all. */
  execute(query: never): PromiseLike<unknown>;
  rollback(): unknown;
}

/** A pool has a `totalCount`; what begins a transaction is none. */
interface DriverTransaction {
  query(text: string, values: unknown[]): PromiseLike<{ rows: unknown[] }>;
  readonly totalCount?: never;
  readonly transaction?: never;
}

/** What the adapters of `lib/elsewhere/clients` say of a client's transaction. */
export interface Adapted {
  /** How such a transaction is passed to `emit`. */
  readonly example: string;
  /** Whether the client knows that it is in none. */
  readonly isOutside?: () => boolean;
}

/** Nothing was stored: what should have had a part in a transaction was called outside of one. */
export class NotInTransaction extends TypeError {
  readonly code = 'not_in_transaction';

  constructor(call: string, given: string, example: string, options?: ErrorOptions) {
    super(
      `${call} takes a transaction, got ${given}: outside of your transaction it would survive a rollback of your own rows. Write for example ${example.replace('emit(', `${call}(`)}`,
      options,
    );
    this.name = 'NotInTransaction';
  }
}

/**
 * Runs something that writes in a transaction of a caller, if it is one.
 *
 * @param call the function's name, for the error.
 * @throws NotInTransaction before anything is sent where the client tells, otherwise before anything is stored, where the
 *   statement has `MAYBE_FIRST_WRITE`.
 */
export async function inTransactionOf<Result>(
  tx: Transaction,
  call: string,
  write: () => Promise<Result>,
): Promise<Result> {
  const { given, example } = described(tx);
  if (given !== null) throw new NotInTransaction(call, given, example);
  try {
    return await write();
  } catch (error) {
    if (!saysOutside(error)) throw error;
    throw new NotInTransaction(call, 'a connection that is in none', example, { cause: error });
  }
}

/**
 * A term of a statement that must be part of a transaction: notes the statement's time where it is the first to write, so that
 * it may be alone. At the commit, `postbud_require_transaction_1` refuses what was written by a statement of the same time: it
 * was alone, unless it is a `commit`, which has the same time where a clock counts milliseconds, as PGlite's does. Must be
 * computed before the statement writes.
 */
export const MAYBE_FIRST_WRITE = `case when pg_catalog.txid_current_if_assigned() is null then
  pg_catalog.set_config('postbud.first_write', pg_catalog.statement_timestamp()::pg_catalog.text, true) end`;

/** The message of `postbud_require_transaction_1`. */
const OUTSIDE = 'PB007: this is not in a transaction';

/** Clients wrap the error, each in its own way; the message is in all of them. */
function saysOutside(error: unknown): boolean {
  return error instanceof Error && (error.message.includes(OUTSIDE) || saysOutside(error.cause));
}

/** @returns what was given, if that is known to be no transaction, and how to pass one. */
function described(tx: unknown): { given: string | null; example: string } {
  // Without types, a caller may pass anything.
  if (typeof tx !== 'object' || tx === null) return { given: null, example: ON_CLIENT };
  const has = (name: string) => typeof Reflect.get(tx, name) === 'function';
  if (isAdapted(tx))
    return { given: tx.isOutside?.() === true ? 'a client that is in none' : null, example: tx.example };
  if (has('execute')) return { given: has('rollback') ? null : 'a database', example: ON_DATABASE };
  if (has('transaction')) return { given: 'a database', example: ON_DATABASE };
  if ('totalCount' in tx && has('connect')) return { given: 'a pool', example: ON_CLIENT };
  return { given: isIdle(tx) ? 'a client on which none was begun' : null, example: ON_CLIENT };
}

const ON_DATABASE = 'await db.transaction(async (tx) => { …; await emit(tx, …); })';

const ON_CLIENT =
  "const client = await pool.connect(); await client.query('begin'); …; await emit(client, …); await client.query('commit')";

function isAdapted(tx: object): tx is Adapted {
  return 'example' in tx && typeof tx.example === 'string';
}

/** Whether a client of `pg` knows that it is in no transaction. With a statement under way, that may be a `begin`. */
function isIdle(tx: object): boolean {
  if (!('getTransactionStatus' in tx) || typeof tx.getTransactionStatus !== 'function') return false;
  return 'readyForQuery' in tx && tx.readyForQuery === true && tx.getTransactionStatus() === 'I';
}

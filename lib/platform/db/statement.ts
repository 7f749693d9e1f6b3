import { MINUTE, SECOND } from '../time.ts';

/** One SQL statement and its parameters, `$1` first. */
export interface Statement {
  /**
   * Makes each of our own connections prepare the statement once, under this name. For frequent statements, which cost
   * more to plan than to run. Each name must have a single text.
   */
  readonly name?: string;
  readonly text: string;
  readonly values: readonly unknown[];
  /** How long to wait for the answer, in milliseconds, where the statement runs alone; by default `ANSWER_LIMIT_MS`. */
  readonly limitMs?: number;
  /** Whether it is a turn of a relay, for which there are connections of their own. */
  readonly isTurn?: true;
  /** Settings of `pg` and Neon's driver for the rows, as Drizzle's builder reads them: in arrays, with instants as text. */
  readonly reading?: { readonly rowMode?: unknown; readonly types?: unknown };
}

/**
 * How long we wait for the answer to a statement that has no other limit: longer than any takes that an operator's page or
 * a duty of the cron sends. Only a connection whose other end is gone without a word keeps us waiting.
 */
export const ANSWER_LIMIT_MS = 5 * MINUTE;

/** For the statements of a relay's loop, which takes its next turn only after them. The longest take a second or two. */
export const TURN_LIMIT_MS = 15 * SECOND;

/**
 * A Drizzle database or transaction, or the bare client, pool or transaction of `pg`, of Neon's driver or of PGlite.
 *
 * Described by their methods, because a component in another repository has its own copies of these packages.
 */
export type Executor = DrizzleExecutor | DriverExecutor;

interface DrizzleExecutor {
  /** Every copy of Drizzle takes an `SQLWrapper` of its own; the `never` accepts them all. */
  execute(query: never): PromiseLike<unknown>;
}

interface DriverExecutor {
  query(text: string, values: unknown[]): PromiseLike<{ rows: unknown[] }>;
}

/** A way to send statements over our own connections, or in a transaction on one of them. */
export interface Sender {
  send(statement: Statement): Promise<{ rows: unknown[] }>;
  /** Sets how long the next statements of a transaction may wait for their answers. */
  limitAnswers?(limitMs: number): void;
}

const senders = new WeakMap<object, Sender>();

/** Makes `run` send the statements of a database, its client or a transaction this way. */
export function sendsBy(on: object, sender: Sender): void {
  senders.set(on, sender);
}

/** Whether `connect()` opened a database or a transaction. */
export function isOurs(on: object): boolean {
  return senders.has(on);
}

/**
 * Gives a pool for Drizzle's session to send statements by that run alone. They are sent as `run` sends them, so a
 * statement of Drizzle's builder has the same limit, the same repetitions and the same explained errors as one of text;
 * in a transaction both go over its connection. Text is left what the builder has no word for: a limit of its own, and
 * `isTurn`.
 */
export function alone<Pool extends object>(pool: Pool): Pool {
  const query = async ({ text, ...reading }: { readonly text: string }, values: readonly unknown[]) =>
    await senders.get(pool)!.send({ text, values, reading });
  return new Proxy(pool, { get: (target, key) => (key === 'query' ? query : Reflect.get(target, key)) });
}

/**
 * Runs a statement.
 *
 * The drivers parse `bigint` and `timestamptz` differently, so statements select such columns as `float8` (numbers, epoch
 * milliseconds) or `text`.
 *
 * On a client of somebody else's the statement is never prepared by name: there may be a pooler that does not keep names,
 * and its error would abort the caller's transaction.
 *
 * @returns the rows, in the statement's order. `Row` describes the columns that the statement selects; it is not checked.
 * @throws the driver's error, whose `code` is the SQLSTATE; from the first statement of a transaction that the server did
 *   not begin, TransactionNotBegun with that error as its cause.
 */
export async function run<Row>(on: Executor, statement: Statement): Promise<Row[]> {
  // Without types, a caller may pass anything.
  if (typeof on !== 'object' || on === null) throw new NoExecutor();
  const { text, values } = statement;
  const ours = senders.get(on)?.send(statement);
  const answered = ours ?? ('query' in on && typeof on.query === 'function' && on.query(text, [...values]));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see above
  if (answered) return (await answered).rows as Row[];
  if (!('execute' in on)) throw new NoExecutor();
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see above
  const result = (await on.execute(asDrizzle(statement) as never)) as { rows: Row[] } | Row[];
  // Drizzle's result is the driver's, and that of postgres.js is the rows themselves.
  return Array.isArray(result) ? result : result.rows;
}

class NoExecutor extends TypeError {
  constructor() {
    super('expected a database, client or transaction of Drizzle, pg, Neon or PGlite');
  }
}

/**
 * Limits how long each statement of a transaction may take; a longer one fails with SQLSTATE 57014. Without a limit, a
 * statement that waits for a lock which is never released keeps its connection forever.
 *
 * @param limitMs 0 for no limit.
 */
export async function limitStatements(tx: Executor, limitMs = 10 * SECOND): Promise<void> {
  senders.get(tx)?.limitAnswers?.(limitMs === 0 ? Infinity : limitMs + ON_THE_WAY_MS);
  await run(tx, {
    text: `select set_config('statement_timeout', $1::text, true)`,
    values: [`${limitMs}ms`],
  });
}

/** What a network takes at worst, beside the statement. */
const ON_THE_WAY_MS = 5 * SECOND;

/** Gives the bare client of a Drizzle database, which saves Drizzle's work on each statement. */
export function driverOf(db: { $client: unknown }): Executor {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the three drivers that connect() opens
  return db.$client as DriverExecutor;
}

/**
 * Converts a statement to what Drizzle's `execute` asks for, so that it runs inside a Drizzle transaction: the two
 * methods of its `SQL` that are called. `sql` of our own copy of Drizzle would do the same, at the cost of splitting the
 * text at its parameters and of having that copy in the package that producers elsewhere install.
 *
 * @see https://github.com/drizzle-team/drizzle-orm/blob/main/drizzle-orm/src/pg-core/dialect.ts `sqlToQuery`
 */
function asDrizzle({ text, values }: Statement) {
  const query = { sql: text, params: [...values] };
  return {
    getSQL() {
      return this;
    },
    toQuery: () => query,
  };
}

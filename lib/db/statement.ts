import { SECOND } from '../time.ts';

/** One SQL statement and its parameters, `$1` first. */
export interface Statement {
  /**
   * Makes each connection prepare the statement once, under this name. For frequent statements, which cost more to plan
   * than to run. Each name must have a single text.
   */
  readonly name?: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

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

/** A client or pool of `pg` or Neon's driver, which prepares statements by name. PGlite does not, and has no `connect`. */
interface PreparingExecutor {
  query(prepared: { name: string; text: string; values: unknown[] }): PromiseLike<{ rows: unknown[] }>;
  connect(): unknown;
}

/**
 * Runs a statement.
 *
 * The drivers parse `bigint` and `timestamptz` differently, so statements select such columns as `float8` (numbers, epoch
 * milliseconds) or `text`.
 *
 * @returns the rows, in the statement's order. `Row` describes the columns that the statement selects; it is not checked.
 * @throws the driver's error, whose `code` is the SQLSTATE; from the first statement of a transaction that the server did
 *   not begin, TransactionNotBegun with that error as its cause.
 */
export async function run<Row>(on: Executor, statement: Statement): Promise<Row[]> {
  // Without types, a caller may pass anything.
  if (typeof on !== 'object' || on === null) throw new NoExecutor();
  const driver = clients.get(on) ?? on;
  if ('query' in driver && typeof driver.query === 'function') {
    const { name, text } = statement;
    const values = [...statement.values];
    const result = await (name !== undefined && prepares(driver)
      ? driver.query({ name, text, values })
      : driver.query(text, values));
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see above
    return result.rows as Row[];
  }
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
 */
export async function limitStatements(tx: Executor, limitMs = 10 * SECOND): Promise<void> {
  await run(tx, {
    text: `select set_config('statement_timeout', $1::text, true)`,
    values: [`${limitMs}ms`],
  });
}

/** Gives the bare client of a Drizzle database, which saves Drizzle's work on each statement. */
export function driverOf(db: { $client: unknown }): Executor {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the three drivers that connect() opens
  return db.$client as DriverExecutor;
}

function prepares(driver: object): driver is PreparingExecutor {
  return 'connect' in driver && typeof driver.connect === 'function';
}

const clients = new WeakMap<object, DriverExecutor>();

/** Makes `run` send the statements of a Drizzle transaction straight to its client. */
export function runsOn(tx: object, client: DriverExecutor): void {
  clients.set(tx, client);
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

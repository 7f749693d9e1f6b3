import { sql } from 'drizzle-orm/sql';
import type { SQL } from 'drizzle-orm/sql';

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

/** A Drizzle database or transaction, or the bare client, pool or transaction of `pg`, of Neon's driver or of PGlite. */
export type Executor = DrizzleExecutor | DriverExecutor;

interface DrizzleExecutor {
  execute(query: SQL): PromiseLike<unknown>;
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
  if (!('execute' in on)) {
    throw new TypeError('expected a database, client or transaction of Drizzle, pg, Neon or PGlite');
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see above
  const result = (await on.execute(asDrizzle(statement))) as { rows: Row[] };
  return result.rows;
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

const pieces = new Map<string, { strings: TemplateStringsArray; order: readonly number[] }>();

/** Converts a statement to Drizzle's form, so that it runs inside a Drizzle transaction. */
function asDrizzle({ text, values }: Statement): SQL {
  let piece = pieces.get(text);
  if (!piece) {
    const strings = text.split(/\$\d+/);
    const order = Array.from(text.matchAll(/\$(\d+)/g), (match) => Number(match[1]) - 1);
    piece = { strings: Object.assign(strings, { raw: strings }), order };
    pieces.set(text, piece);
  }
  return sql(piece.strings, ...piece.order.map((index) => values[index]));
}

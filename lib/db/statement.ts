import { sql } from 'drizzle-orm/sql';
import type { SQL } from 'drizzle-orm/sql';

import { SECOND } from '../time.ts';

/** One SQL statement and its parameters, `$1` first. */
export interface Statement {
  /**
   * Has each connection prepare the statement once, under this name. For those that run again and again: to plan them
   * costs more than to run them. A name stands for one text.
   */
  readonly name?: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * What a statement can run on: a Drizzle database or transaction, or the bare client, pool or transaction of `pg`,
 * of Neon's driver or of PGlite.
 */
export type Executor = DrizzleExecutor | DriverExecutor;

interface DrizzleExecutor {
  execute(query: SQL): PromiseLike<unknown>;
}

interface DriverExecutor {
  query(text: string, values: unknown[]): PromiseLike<{ rows: unknown[] }>;
}

/** What prepares by name: a client or pool of `pg` or Neon's driver. PGlite does not, and has nothing to connect to. */
interface PreparingExecutor {
  query(prepared: { name: string; text: string; values: unknown[] }): PromiseLike<{ rows: unknown[] }>;
  connect(): unknown;
}

/**
 * Runs a statement.
 *
 * The drivers disagree on how they parse `bigint` and `timestamptz`, so statements select such columns as `float8`
 * (numbers, epoch milliseconds) or `text`.
 *
 * @returns the rows, in the statement's order. `Row` is what the statement selects: the one place where the type of
 *   a row is stated rather than checked.
 * @throws whatever the driver throws; its `code` is the SQLSTATE. TransactionNotBegun, with that as its cause, from the
 *   first statement of a transaction that the server did not begin.
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
    throw new TypeError(
      'write the transaction that your database handed you: Drizzle, pg, Neon Pool or PGlite',
    );
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see above
  const result = (await on.execute(asDrizzle(statement))) as { rows: Row[] };
  return result.rows;
}

/**
 * Has each statement of a transaction give up after so long, with SQLSTATE 57014: one that waits for a lock that nobody
 * lets go would otherwise keep its connection for ever, also when nobody waits for the statement any more.
 */
export async function limitStatements(tx: Executor, limitMs = 10 * SECOND): Promise<void> {
  await run(tx, {
    text: `select set_config('statement_timeout', $1::text, true)`,
    values: [`${limitMs}ms`],
  });
}

/** The bare client beneath a Drizzle database, which saves Drizzle's own work on each statement. */
export function driverOf(db: { $client: unknown }): Executor {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the three drivers that connect() opens
  return db.$client as DriverExecutor;
}

function prepares(driver: object): driver is PreparingExecutor {
  return 'connect' in driver && typeof driver.connect === 'function';
}

const clients = new WeakMap<object, DriverExecutor>();

/** Has `run` send the statements of a Drizzle transaction straight to the client that it is on. */
export function runsOn(tx: object, client: DriverExecutor): void {
  clients.set(tx, client);
}

const pieces = new Map<string, { strings: TemplateStringsArray; order: readonly number[] }>();

/** Writes a statement as Drizzle's own, so that it runs inside a Drizzle transaction. */
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

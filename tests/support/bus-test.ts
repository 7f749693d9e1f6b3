import { inject } from 'vitest';

import { openBus } from './bus.ts';
import { ledger as makeLedger } from './ledger.ts';
import { test as base } from './output-test.ts';

export type MakeLedger = typeof makeLedger;

/**
 * Vitest's `test` for what needs a database, with fixtures that a test names to use them:
 *
 * ```ts
 * import { test } from '../support/bus-test.ts';
 *
 * test('the ledger is handed a captured payment', async ({ bus, handed, ledger }) => {
 *   await emitPayments(bus.db, 1, 1);
 *   await drain(bus.db, [ledger()]);
 *   expect(handed).toEqual([1]);
 * });
 * ```
 *
 * - `bus`: the file's own database, emptied before each test, also before those that do not name it.
 *   `test.beforeEach(async ({ bus }) => …)` writes what each test of a describe block begins with.
 * - `database`: the same database for `test.beforeAll(async ({ database }) => …)`, which adds the tables or settings
 *   that the whole file needs.
 * - `handed`: the numbers of the payments that the test's ledgers were handed, oldest first.
 * - `ledger(then?, options?)`: makes a ledger that writes to `handed`, and then calls `then(number, context, event)`.
 * - `output`: what the test wrote to standard output and standard error.
 *
 * A file with fixtures of its own extends it again: `const test = busTest.extend('kicks', () => ({ count: 0 }))`.
 */
export const test = base

  .extend('database', { scope: 'file' }, async ({}, { onCleanup }) => {
    const database = await openBus(inject('postgresUrl'));
    onCleanup(() => database.close());
    return database;
  })
  .extend('bus', { auto: true }, async ({ database }) => {
    await database.reset();
    return database;
  })
  .extend('handed', (): number[] => [])
  .extend(
    'ledger',
    ({ handed }): MakeLedger =>
      (then, options) =>
        makeLedger((payment, context, event) => {
          handed.push(payment);
          return then?.(payment, context, event);
        }, options),
  );

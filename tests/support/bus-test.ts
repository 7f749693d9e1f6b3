import { inject, test as base, vi } from 'vitest';

import { openBus, recordingLedger } from './bus.ts';

/**
 * Vitest's `test` with fixtures. A test names the ones it uses, and only those are set up:
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
 * - `database`: the file's own database. It is also there for `test.beforeAll(async ({ database }) => …)`, which adds
 *   tables or settings that the whole file needs.
 * - `bus`: the same database, emptied before the test. `test.beforeEach(async ({ bus }) => …)` writes what each test
 *   of a describe block begins with.
 * - `handed`: the numbers of the payments that the test's ledgers were handed, oldest first.
 * - `ledger(then?)`: makes a ledger that writes to `handed`, and then does `then` with each number.
 * - `output`: what the test wrote to standard output and standard error, which stay silent until the next test.
 *
 * A file with fixtures of its own extends it again: `const test = busTest.extend('kicks', () => ({ count: 0 }))`.
 */
export const test = base
  // oxlint-disable-next-line no-empty-pattern -- Vitest takes nothing else for a first argument.
  .extend('database', { scope: 'file' }, async ({}, { onCleanup }) => {
    const database = await openBus(inject('postgresUrl'));
    onCleanup(() => database.close());
    return database;
  })
  .extend('bus', async ({ database }) => {
    await database.reset();
    return database;
  })
  .extend('handed', (): number[] => [])
  .extend(
    'ledger',
    ({ handed }) =>
      (then?: (payment: number) => unknown) =>
        recordingLedger(handed, then),
  )
  .extend('output', (): Output => {
    let text = '';
    for (const stream of [process.stdout, process.stderr])
      vi.spyOn(stream, 'write').mockImplementation((written) => {
        text += String(written);
        return true;
      });
    return {
      text: () => text,
      lines: () =>
        text
          .split('\n')
          .filter((line) => line.startsWith('{'))
          .map((line) => JSON.parse(line) as Record<string, unknown>),
    };
  });

/** What a test wrote so far. */
export interface Output {
  readonly text: () => string;
  /** The lines of the log among it. */
  readonly lines: () => Record<string, unknown>[];
}

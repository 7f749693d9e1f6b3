import { expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import type { SubscriberOptions } from '../../lib/bus/subscribers/subscriber.ts';
import { test } from '../support/bus-test.ts';
import type { MakeLedger } from '../support/bus-test.ts';
import { contradictions, drain, emitPayments, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';

// A delivery becomes a dead letter while an earlier one of another key of its lane has no outcome.

/** Two keys of one stream. */
const [EARLY, LATE] = ['booking 2', 'booking 3'];

/** By key, each in order: of the events 1, 4, 2 and 3. */
const statesOf = async ({ db }: Bus) => (await deliveriesOf(db, 'ledger')).map(({ state }) => state);

const countsOf = async ({ db }: Bus) =>
  await rows(
    db,
    `select pending::int, failing::int, dead_lettered::int as dead from subscription_counts where subscriber = 'ledger'`,
  );

/** Makes a dead letter of the second event, while the handler of the first one runs, which the relay's end cuts off. */
async function killTheSecond({ db }: Bus, ledger: MakeLedger, options: SubscriberOptions): Promise<void> {
  await emitPayments(db, 1, 1, { orderingKey: EARLY });
  await emitPayments(db, 2, 3, { orderingKey: LATE });
  await emitPayments(db, 4, 4, { orderingKey: EARLY });
  const stop = new AbortController();
  const handler = ledger(async (number) => {
    if (number === 1) await new Promise(() => undefined);
    if (number !== 2) return;
    setImmediate(() => stop.abort());
    throw new PermanentError('the payment was never booked');
  }, options);
  await drain(db, [handler], { signal: stop.signal });
  expect(await contradictions(db)).toEqual([]);
}

test('a dead letter that halts its key halts it all the same', async ({ bus, handed, ledger }) => {
  const halting = { afterDeadLetter: 'halt' } as const;
  await killTheSecond(bus, ledger, halting);
  expect(handed).toEqual([1, 2]);
  expect(await countsOf(bus)).toEqual([{ pending: 3, failing: 0, dead: 1 }]);
  await drain(bus.db, [ledger(undefined, halting)]);
  expect(handed).toEqual([1, 2, 1, 4]);
  expect(await statesOf(bus)).toEqual(['delivered', 'delivered', 'dead_lettered', 'pending']);
  expect(await countsOf(bus)).toEqual([{ pending: 1, failing: 0, dead: 1 }]);
  expect(await contradictions(bus.db)).toEqual([]);
});

test('a dead letter is not handed over again, whether or not the subscriber has a limit', async ({
  bus,
  handed,
  ledger,
}) => {
  await killTheSecond(bus, ledger, {});
  await drain(bus.db, [ledger(undefined, { concurrency: 2 })]);
  expect(handed.filter((number) => number === 2)).toHaveLength(1);
  expect(await statesOf(bus)).toEqual(['delivered', 'delivered', 'dead_lettered', 'delivered']);
  expect(await countsOf(bus)).toEqual([{ pending: 0, failing: 0, dead: 1 }]);
  expect(await contradictions(bus.db)).toEqual([]);
});

import { describe, expect } from 'vitest';

import { dismiss } from '../../lib/bus/deliveries/operations/dismiss.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, numbers, payment, rows } from '../support/bus.ts';
import { deliveryIdsOf, statesOf, haltsOf } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';
import { fail, refuse } from '../support/ledger.ts';

const LATER = new Date(START + MINUTE);

const replayed = (db: Database, ids: readonly string[], now = LATER) =>
  replay(db, { deliveryIds: [...ids] }, 'kari', now);

const dismissAll = (db: Database) =>
  dismiss(
    db,
    { topic: 'payment.captured', subscriber: 'ledger', kind: null },
    {
      action: 'dismiss',
      by: 'kari',
      reason: 'booked by hand',
      now: new Date(START + 3 * DAY),
      until: Date.now() + MINUTE,
    },
  );

/** Ledgers that halt, one for each way of delivering. They refuse the payments in `refused`. */
const ledgers: Readonly<
  Record<string, (handed: number[], refused: ReadonlySet<number>) => AttachedSubscriber>
> = {
  'one by one': (handed, refused) =>
    subscriber(
      'ledger',
      { 'payment.captured': ({ payload }) => take(handed, refused, payload.amountMinor) },
      { afterDeadLetter: 'halt' },
    ),
  'in a transaction': (handed, refused) =>
    subscriber(
      'ledger',
      { 'payment.captured': ({ payload }) => take(handed, refused, payload.amountMinor) },
      { afterDeadLetter: 'halt', transactional: true, sharesCommits: false },
    ),
  'in batches': (handed, refused) =>
    subscriber(
      'ledger',
      {
        'payment.captured': (events) => {
          for (const [index, { payload }] of events.entries()) {
            if (refused.has(payload.amountMinor) && index > 0) return index;
            take(handed, refused, payload.amountMinor);
          }
          return undefined;
        },
      },
      { afterDeadLetter: 'halt', batch: true },
    ),
};

function take(handed: number[], refused: ReadonlySet<number>, number: number): void {
  if (refused.has(number)) throw new PermanentError('refused');
  handed.push(number);
}

/** Runs relays until the retries of events that a batch did not take are over. */
async function drainDays(bus: Bus, attached: AttachedSubscriber, from = START): Promise<void> {
  for (const after of [0, HOUR, DAY, 2 * DAY, 3 * DAY])
    await drain(bus.db, [attached], { now: from + after });
}

describe.for(Object.keys(ledgers))('after a dead letter, a subscription that halts (%s)', (way) => {
  const make = ledgers[way]!;

  test('delivers nothing later until it is replayed, then everything in order', async ({ bus, handed }) => {
    const refused = new Set([3]);
    const attached = make(handed, refused);
    await emitPayments(bus.db, 1, 6);
    await drainDays(bus, attached);
    expect(handed).toEqual([1, 2]);
    await emitPayments(bus.db, 7, 8);
    await drainDays(bus, attached);
    expect(handed).toEqual([1, 2]);
    expect(await statesOf(bus.db)).toEqual([
      'delivered',
      'delivered',
      'dead_lettered',
      ...Array.from({ length: 5 }, () => 'pending'),
    ]);
    expect(await contradictions(bus.db)).toEqual([]);

    refused.clear();
    const ids = await deliveryIdsOf(bus.db);
    await replayed(bus.db, [ids[2]!], new Date(START + 4 * DAY));
    await drain(bus.db, [attached], { now: START + 4 * DAY });
    expect(handed).toEqual(numbers(1, 8));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('goes on behind it once it is dismissed', async ({ bus, handed }) => {
    const attached = make(handed, new Set([3]));
    await emitPayments(bus.db, 1, 6);
    await drainDays(bus, attached);
    await dismissAll(bus.db);
    await drainDays(bus, attached);
    expect(handed).toEqual([1, 2, 4, 5, 6]);
    expect(await haltsOf(bus.db)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('halts only the ordering key of the dead letter', async ({ bus, handed }) => {
    const refused = new Set([3]);
    const attached = make(handed, refused);
    for (let number = 1; number <= 9; number += 1)
      await bus.db.transaction((tx) =>
        emit(tx, 'payment.captured', payment(number), { orderingKey: `booking ${number % 3}` }),
      );
    await drainDays(bus, attached);
    expect(handed.toSorted((a, b) => a - b)).toEqual([1, 2, 4, 5, 7, 8]);
    await emitPayments(bus.db, 12, 12, { orderingKey: 'booking 0' });
    await drainDays(bus, attached);
    expect(handed).not.toContain(12);
    expect(await contradictions(bus.db)).toEqual([]);

    refused.clear();
    await replay(bus.db, { topic: 'payment.captured', since: '10d' }, 'kari', new Date(START + 4 * DAY));
    await drain(bus.db, [attached], { now: START + 4 * DAY });
    expect(handed.slice(-4)).toEqual([3, 6, 9, 12]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('stays halted when an older dead letter is replayed', async ({ bus, handed }) => {
    const refused = new Set([1, 3]);
    const attached = make(handed, refused);
    await emitPayments(bus.db, 1, 5);
    await drainDays(bus, attached);
    const ids = await deliveryIdsOf(bus.db);
    await dismissAll(bus.db);
    await drainDays(bus, attached, START + 3 * DAY);
    expect(handed).toEqual([2]);
    refused.clear();
    // Dismissed, but it can still be replayed. It comes before the one that halts the lane.
    await replayed(bus.db, [ids[0]!], new Date(START + 7 * DAY));
    await drain(bus.db, [attached], { now: START + 7 * DAY });
    expect(handed).toEqual([2, 1]);
    await replayed(bus.db, [ids[2]!], new Date(START + 8 * DAY));
    await drain(bus.db, [attached], { now: START + 8 * DAY });
    expect(handed).toEqual([2, 1, 3, 4, 5]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('halts again when the replayed delivery dies again', async ({ bus, handed }) => {
    const attached = make(handed, new Set([1]));
    await emitPayments(bus.db, 1, 3);
    await drainDays(bus, attached);
    const [id] = await deliveryIdsOf(bus.db);
    await replayed(bus.db, [id!], new Date(START + 4 * DAY));
    await drain(bus.db, [attached], { now: START + 4 * DAY });
    expect(handed).toEqual([]);
    expect(await statesOf(bus.db)).toEqual(['dead_lettered', 'pending', 'pending']);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('a halt', () => {
  test('comes after the last attempt, and not before', async ({ bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 2);
    const attached = ledger((number) => number === 1 && fail(), { afterDeadLetter: 'halt' });
    await drain(bus.db, [attached]);
    expect(await haltsOf(bus.db)).toEqual([]);
    for (let day = 1; day <= 5; day += 1) await drain(bus.db, [attached], { now: START + day * DAY });
    expect(handed).toEqual([1, 1, 1, 1, 1]);
    expect(await haltsOf(bus.db)).toHaveLength(1);
  });

  test('of a key lasts where its lane was made for an earlier event', async ({ bus, handed, ledger }) => {
    const orderingKey = 'booking 1';
    let isDown = true;
    const attached = ledger(
      (number) => {
        if (number === 1 && isDown) fail();
        if (number === 2) refuse();
      },
      { afterDeadLetter: 'halt' },
    );
    await emitPayments(bus.db, 1, 2, { orderingKey });
    await drain(bus.db, [attached]);
    isDown = false;
    await drain(bus.db, [attached], { now: START + MINUTE });
    await emitPayments(bus.db, 3, 3, { orderingKey });
    await drain(bus.db, [attached], { now: START + HOUR });
    expect(handed).toEqual([1, 1, 2]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is not made by a skip: the operator has decided that the lane goes on', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 2);
    const attached = ledger((number) => number === 1 && fail(), { afterDeadLetter: 'halt' });
    await drain(bus.db, [attached]);
    const [id] = await deliveryIdsOf(bus.db);
    await skip(bus.db, { deliveryId: id!, by: 'kari', reason: 'a test', now: LATER });
    await drain(bus.db, [attached], { now: START + MINUTE });
    expect(handed).toEqual([1, 2]);
  });

  test('of a key lasts when a delivery that was replayed before it is skipped', async ({
    bus,
    handed,
    ledger,
  }) => {
    const orderingKey = 'booking 1';
    let isDown = false;
    const attached = ledger(() => (isDown ? fail() : refuse()), { afterDeadLetter: 'halt' });
    await emitPayments(bus.db, 1, 2, { orderingKey });
    await drain(bus.db, [attached]);
    await dismissAll(bus.db);
    await drain(bus.db, [attached], { now: START + 3 * DAY });
    isDown = true;
    const [first] = await deliveryIdsOf(bus.db);
    await replayed(bus.db, [first!], new Date(START + 4 * DAY));
    await drain(bus.db, [attached], { now: START + 4 * DAY });
    expect(handed).toEqual([1, 2, 1]);
    const now = new Date(START + 4 * DAY + 1);
    await skip(bus.db, { deliveryId: first!, by: 'kari', reason: 'booked by hand', now });
    await emitPayments(bus.db, 3, 3, { orderingKey });
    await drain(bus.db, [attached], { now: START + 5 * DAY });
    expect(handed).toEqual([1, 2, 1]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('of a key lasts when a delivery that was replayed before it is delivered alone', async ({
    bus,
    handed,
    ledger,
  }) => {
    const orderingKey = 'booking 1';
    let refuses = true;
    const attached = ledger(() => refuses && refuse(), { afterDeadLetter: 'halt' });
    await emitPayments(bus.db, 1, 2, { orderingKey });
    await drain(bus.db, [attached]);
    await dismissAll(bus.db);
    await drain(bus.db, [attached], { now: START + 3 * DAY });
    refuses = false;
    // As after the death of a relay.
    await rows(bus.db, 'update journal set careful_to = head where lane in (select lane from exceptions)');
    const [first] = await deliveryIdsOf(bus.db);
    await replayed(bus.db, [first!], new Date(START + 4 * DAY));
    await drain(bus.db, [attached], { now: START + 4 * DAY });
    await emitPayments(bus.db, 3, 3, { orderingKey });
    await drain(bus.db, [attached], { now: START + 5 * DAY });
    expect(handed).toEqual([1, 2, 1]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is over when its delivery is replayed, and that is then skipped', async ({ bus, handed, ledger }) => {
    let isDown = false;
    const attached = ledger((number) => number === 1 && (isDown ? fail() : refuse()), {
      afterDeadLetter: 'halt',
    });
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [attached]);
    isDown = true;
    const [first] = await deliveryIdsOf(bus.db);
    await replayed(bus.db, [first!]);
    await drain(bus.db, [attached], { now: START + HOUR });
    const now = new Date(START + HOUR + 1);
    await skip(bus.db, { deliveryId: first!, by: 'kari', reason: 'booked by hand', now });
    await drain(bus.db, [attached], { now: START + 2 * HOUR });
    expect(handed).toEqual([1, 1, 2]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('ends with the replay: the delivery may die again and halt nothing by then', async ({
    bus,
    handed,
    ledger,
  }) => {
    const refusesFirst = (number: number) => number === 1 && refuse();
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(refusesFirst, { afterDeadLetter: 'halt' })]);
    const [first] = await deliveryIdsOf(bus.db);
    await replayed(bus.db, [first!]);
    await drain(bus.db, [ledger(refusesFirst)], { now: START + HOUR });
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, [ledger(refusesFirst)], { now: START + 2 * HOUR });
    expect(handed).toEqual([1, 1, 2, 3]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('of one subscription leaves the others of the topic alone', async ({ bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 3);
    const others: number[] = [];
    const accounting = subscriber('accounting', {
      'payment.captured': ({ payload }) => void others.push(payload.amountMinor),
    });
    await drain(bus.db, [
      ledger((number) => number === 1 && refuse(), { afterDeadLetter: 'halt' }),
      accounting,
    ]);
    expect(handed).toEqual([1]);
    expect(others).toEqual([1, 2, 3]);
  });
});

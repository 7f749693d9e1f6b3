import { describe, expect } from 'vitest';

import { SLOTS } from '../../drizzle/schema.ts';
import { Bell } from '../../lib/bus/relay/bell.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { NotActedOn } from '../../lib/bus/deliveries/refusals.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { HOUR, MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  START,
  contradictions,
  drain,
  emitPayments,
  gate,
  numbers,
  rows,
  storeBacklog,
} from '../support/bus.ts';
import { deliveriesOf, deliveryIdsOf } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';

/** Two keys of one shared lane, and one of another. */
let one: string;
let beside: string;

test.beforeAll(async ({ database: bus }) => {
  const bySlot = new Map<number, string[]>();
  for (let number = 0; number < 100; number += 1) {
    const key = `booking ${number}`;
    const slot = await slotOf(bus, key);
    bySlot.set(slot, [...(bySlot.get(slot) ?? []), key]);
  }
  [one, beside] = [...bySlot.values()].find((keys) => keys.length > 1) as [string, string];
});

async function slotOf(bus: Bus, key: string): Promise<number> {
  const [row] = await rows<{ slot: number }>(bus.db, 'select postbud_slot($1)::int as slot', [key]);
  return row!.slot;
}

/** The keys of the ledger that wait for one of their deliveries. */
async function heldKeys(bus: Bus): Promise<string[]> {
  const open = (await deliveriesOf(bus.db, 'ledger')).filter(({ state }) => state === 'failing');
  return [...new Set(open.map(({ orderingKey }) => orderingKey))];
}

const statesOf = async (bus: Bus, key: string) =>
  (await deliveriesOf(bus.db, 'ledger'))
    .filter(({ orderingKey }) => orderingKey === key)
    .map(({ state }) => state);

describe('ordering keys', () => {
  test('of any number share a fixed number of lanes for each subscription', async ({
    bus,
    handed,
    ledger,
  }) => {
    await storeBacklog(bus.db, 'payment.captured', 3000, 1500);
    expect(await drain(bus.db, [ledger()])).toMatchObject({ delivered: 3000 });
    const lanes = await rows<{ slot: number }>(
      bus.db,
      `select slot from lanes where subscriber = 'ledger' order by slot`,
    );
    expect(lanes.map(({ slot }) => slot)).toEqual(numbers(1, SLOTS));
    for (let key = 0; key < 1500; key += 1) {
      const ofKey = handed.filter((number) => number % 1500 === key);
      expect(ofKey).toEqual(ofKey.toSorted((a, b) => a - b));
    }
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test("that share a lane wait neither for each other's retries nor for each other's slow handlers", async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 2, { orderingKey: one });
    await emitPayments(bus.db, 3, 4, { orderingKey: beside });
    const failing = ledger((number) => {
      if (number === 1 && handed.length <= 2) throw new Error('not yet');
    });
    expect(await drain(bus.db, [failing])).toMatchObject({
      delivered: 2,
      failed: 1,
      nextRetryAt: START + MINUTE,
    });
    expect(await statesOf(bus, one)).toEqual(['failing', 'pending']);
    expect(await statesOf(bus, beside)).toEqual(['delivered', 'delivered']);
    expect(await heldKeys(bus)).toEqual([one]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('are handed over once each while the lane goes on beside a slow handler, whose key has more', async ({
    bus,
    handed,
    ledger,
  }) => {
    const slow = gate();
    const bell = new Bell();
    const some = ledger((number) => {
      if (number === 1) return slow.opened;
      if (number === 4) throw new PermanentError('never');
    });
    const emitAndRing = async (number: number, orderingKey: string) => {
      await emitPayments(bus.db, number, number, { orderingKey });
      bell.ring(['payment.captured']);
    };
    await emitPayments(bus.db, 1, 1, { orderingKey: one });
    const relaying = relay({ db: bus.db, subscribers: [some], until: Date.now() + 5 * SECOND, bell });
    // Each comes with the one before it still in hand: a turn may claim both.
    await sleep(200);
    await Promise.all([emitAndRing(2, one), emitAndRing(3, beside), emitAndRing(4, beside)]);
    for (let ring = 0; ring < 10; ring += 1) {
      await sleep(10);
      bell.ring(['payment.captured']);
    }
    slow.open();
    expect(await relaying).toMatchObject({ delivered: 3, deadLettered: 1, leasesLost: 0 });
    expect(handed.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('that fail keep their order, also with newer events, and share their lane again afterwards', async ({
    bus,
    handed,
    ledger,
  }) => {
    const refusing = ledger((number) => {
      if (number === 1 && handed.filter((one) => one === 1).length < 3) throw new Error('not yet');
    });
    await emitPayments(bus.db, 1, 2, { orderingKey: one });
    await emitPayments(bus.db, 3, 3, { orderingKey: beside });
    await drain(bus.db, [refusing]);
    // While the key waits, more comes for it and for those beside it.
    await emitPayments(bus.db, 4, 4, { orderingKey: one });
    await emitPayments(bus.db, 5, 5, { orderingKey: beside });
    await drain(bus.db, [refusing]);
    expect(handed).toEqual([1, 3, 5]);
    await drain(bus.db, [refusing], { now: START + MINUTE });
    await emitPayments(bus.db, 6, 6, { orderingKey: one });
    await drain(bus.db, [refusing], { now: START + MINUTE });
    expect(await heldKeys(bus)).toEqual([one]);
    expect(await contradictions(bus.db)).toEqual([]);
    await drain(bus.db, [refusing], { now: START + 6 * MINUTE });
    expect(handed).toEqual([1, 3, 5, 1, 1, 2, 4, 6]);
    expect(await heldKeys(bus)).toEqual([]);
    await emitPayments(bus.db, 7, 7, { orderingKey: one });
    expect(await drain(bus.db, [refusing], { now: START + 6 * MINUTE })).toMatchObject({ delivered: 1 });
    expect(await heldKeys(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('that fail keep the ids of their deliveries', async ({ bus }) => {
    const ids: string[] = [];
    const failing = subscriber('ledger', {
      'payment.captured': (_, { deliveryId, attempt }) => {
        ids.push(deliveryId);
        if (attempt < 3) throw new Error('not yet');
      },
    });
    await emitPayments(bus.db, 1, 1, { orderingKey: one });
    await drain(bus.db, [failing]);
    await drain(bus.db, [failing], { now: START + MINUTE });
    await drain(bus.db, [failing], { now: START + 6 * MINUTE });
    expect(ids).toHaveLength(3);
    expect(new Set(ids).size).toBe(1);
    expect(ids[0]).toBe((await deliveryIdsOf(bus.db))[0]);
  });

  test('continue after a dead letter, and after a wait that a handler asked for', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 4, { orderingKey: one });
    const attached = ledger((number) => {
      if (number === 1) throw new PermanentError('never');
      if (number === 2 && handed.length === 2) throw new RetryAfter(HOUR);
    });
    expect(await drain(bus.db, [attached])).toMatchObject({ delivered: 0, deadLettered: 1, waited: 1 });
    expect(await statesOf(bus, one)).toEqual(['dead_lettered', 'pending', 'pending', 'pending']);
    expect(await drain(bus.db, [attached], { now: START + HOUR })).toMatchObject({ delivered: 3 });
    expect(handed).toEqual([1, 2, 2, 3, 4]);
    expect(await heldKeys(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('are assigned to the same lanes by every version of Postgres', async ({ bus }) => {
    expect(await Promise.all(['bk_1', 'bk_2', 'møterom 3'].map((key) => slotOf(bus, key)))).toEqual([
      5, 8, 7,
    ]);
  });
});

describe('an operator', () => {
  /** The deliveries that others of their key wait for. */
  const held = async (bus: Bus) =>
    (await deliveriesOf(bus.db, 'ledger'))
      .filter(({ state }) => state === 'failing')
      .map(({ id: deliveryId }) => ({ deliveryId }));

  test.beforeEach(async ({ bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 3, { orderingKey: one });
    await emitPayments(bus.db, 4, 4, { orderingKey: beside });
    await drain(bus.db, [
      ledger((number) => {
        if (number === 1) throw new Error('not yet');
      }),
    ]);
    handed.length = 0;
  });

  test('can retry the held delivery at once', async ({ bus, handed, ledger }) => {
    const [{ deliveryId } = { deliveryId: '' }] = await held(bus);
    await retryNow(bus.db, { deliveryId, by: 'kari', now: new Date(START) });
    expect(await drain(bus.db, [ledger()])).toMatchObject({ delivered: 3 });
    expect(handed).toEqual([1, 2, 3]);
    expect(await heldKeys(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('can skip the held delivery, and after the last one nothing of the key is held', async ({
    bus,
    ledger,
  }) => {
    const [{ deliveryId } = { deliveryId: '' }] = await held(bus);
    await skip(bus.db, { deliveryId, by: 'kari', reason: 'a test', now: new Date(START) });
    expect(await contradictions(bus.db)).toEqual([]);
    const failing = ledger((number) => {
      if (number === 3) throw new Error('not yet');
    });
    expect(await drain(bus.db, [failing])).toMatchObject({ delivered: 1, failed: 1 });
    expect(await heldKeys(bus)).toEqual([one]);
    const [last] = await held(bus);
    await skip(bus.db, { deliveryId: last!.deliveryId, by: 'kari', reason: 'a test', now: new Date(START) });
    expect(await heldKeys(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('cannot skip a delivery that waits behind the held one', async ({ bus }) => {
    const ofKey = (await deliveriesOf(bus.db, 'ledger')).filter(({ orderingKey }) => orderingKey === one);
    const behind = ofKey[1]!.id;
    await expect(skip(bus.db, { deliveryId: behind, by: 'kari', reason: 'a test' })).rejects.toThrow(
      NotActedOn,
    );
  });

  test('can replay delivered events of the key, which come before the waiting ones', async ({
    bus,
    handed,
    ledger,
  }) => {
    await drain(
      bus.db,
      [
        ledger((number) => {
          if (number === 1) throw new PermanentError('never');
          if (number === 2) throw new Error('not yet');
        }),
      ],
      { now: START + MINUTE },
    );
    expect(await heldKeys(bus)).toEqual([one]);
    handed.length = 0;
    await replay(
      bus.db,
      { topic: 'payment.captured', since: '1h', include: 'all' },
      'kari',
      new Date(START + MINUTE),
    );
    expect(await contradictions(bus.db)).toEqual([]);
    await drain(bus.db, [ledger()], { now: START + 2 * MINUTE });
    expect(handed.filter((number) => number < 4)).toEqual([1, 2, 3]);
    expect(handed).toContain(4);
    expect(await heldKeys(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('can replay delivered events of the key after it was held', async ({ bus, handed, ledger }) => {
    await drain(bus.db, [ledger()], { now: START + MINUTE });
    expect(await heldKeys(bus)).toEqual([]);
    handed.length = 0;
    const done = await replay(
      bus.db,
      { topic: 'payment.captured', since: '1h', subscriber: 'ledger', include: 'all' },
      'kari',
      new Date(START + 2 * MINUTE),
    );
    expect(done).toMatchObject({ replayed: 4 });
    await drain(bus.db, [ledger()], { now: START + 2 * MINUTE });
    expect(handed.filter((number) => number < 4)).toEqual([1, 2, 3]);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

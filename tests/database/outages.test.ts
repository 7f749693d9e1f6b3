import { describe, expect } from 'vitest';

import type { Database } from '../../lib/db/connect.ts';
import { emit } from '../../lib/outbox/emit.ts';
import { PermanentError } from '../../lib/subscribers/outcome.ts';
import { DAY, HOUR, MINUTE } from '../../lib/time.ts';
import {
  START,
  contradictions,
  deliveriesOf,
  drain,
  emitPayments,
  payment,
  rows,
  statesOf,
} from '../support/bus.ts';
import { test } from '../support/bus-test.ts';
import { randomFrom } from '../support/random.ts';

const WAIT = { outage: 'wait' } as const;

/** Fails as a component elsewhere does that is not there. */
class Nobody extends Error {
  readonly code: string;

  constructor(code: string) {
    super(`nobody is there: ${code}`);
    this.code = code;
  }
}

const absent = (code = 'unreachable') => {
  throw new Nobody(code);
};

const outages = (db: Database) =>
  rows<{ subscriber: string; kind: string; probes: number }>(
    db,
    'select subscriber, kind, probes from outages where recovered_at is null',
  );

/** Emits a payment for each of so many ordering keys. */
async function emitKeys(db: Database, from: number, to: number, keyOf: (number: number) => string) {
  await db.transaction(async (tx) => {
    for (let number = from; number <= to; number += 1)
      await emit(tx, 'payment.captured', payment(number), { orderingKey: keyOf(number) });
  });
}

describe('an outage', () => {
  test.for(['unreachable', 'timeout', 'http_502', 'http_503', 'http_504'])(
    'opens when three keys fail with %s',
    async (kind, { bus, ledger }) => {
      await emitKeys(bus.db, 1, 3, (number) => `booking ${number}`);
      await drain(bus.db, [ledger(() => absent(kind), WAIT)]);
      expect(await outages(bus.db)).toEqual([{ subscriber: 'ledger', kind, probes: 0 }]);
    },
  );

  test('opens when one lane fails three times', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 2);
    const attached = ledger(() => absent(), WAIT);
    await drain(bus.db, [attached]);
    await drain(bus.db, [attached], { now: START + 2 * MINUTE });
    expect(await outages(bus.db)).toEqual([]);
    await drain(bus.db, [attached], { now: START + 10 * MINUTE });
    expect(await outages(bus.db)).toHaveLength(1);
  });

  test.for([
    [
      'a permanent error',
      () => {
        throw new PermanentError('no');
      },
    ],
    ['an error of the content', () => absent('http_500')],
    ['different errors', (number: number) => absent(['unreachable', 'timeout', 'http_502'][number % 3])],
  ] as const)('is not opened by %s', async ([, handle], { bus, ledger }) => {
    await emitKeys(bus.db, 0, 2, (number) => `booking ${number}`);
    await drain(bus.db, [ledger(handle, WAIT)]);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('is not opened while the subscriber answers others between', async ({ bus, ledger }) => {
    const attached = ledger((number) => number % 2 === 0 && absent(), WAIT);
    for (let number = 1; number <= 10; number += 1) {
      await emitKeys(bus.db, number, number, () => `booking ${number}`);
      await drain(bus.db, [attached]);
    }
    expect(await outages(bus.db)).toEqual([]);
  });

  test('is not opened where the subscription does not wait', async ({ bus, ledger }) => {
    await emitKeys(bus.db, 1, 5, (number) => `booking ${number}`);
    await drain(bus.db, [ledger(() => absent())]);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('of a thousand keys for twelve hours leaves no dead letter, makes one attempt a probe, and then all follow in order', async ({
    bus,
    handed,
    ledger,
  }) => {
    let isDown = true;
    const attached = ledger(() => isDown && absent(), WAIT);
    await emitKeys(bus.db, 1, 2000, (number) => `booking ${number % 1000}`);
    await drain(bus.db, [attached]);
    expect(await outages(bus.db)).toHaveLength(1);
    // Those that were under way when it opened.
    const first = handed.length;
    expect(first).toBeLessThan(300);

    const probed: number[] = [];
    for (let minute = 1; minute <= 12 * 60; minute += 1) {
      const before = handed.length;
      await drain(bus.db, [attached], { now: START + minute * MINUTE });
      if (handed.length > before) probed.push(minute);
      expect(handed.length - before).toBeLessThanOrEqual(1);
    }
    expect(probed).toEqual([1, 6, 36, 396]);
    expect(new Set(await statesOf(bus.db))).toEqual(new Set(['pending', 'failing']));
    const attempts = (await deliveriesOf(bus.db, 'ledger')).map((one) => one.attempts);
    expect(Math.max(...attempts)).toBeLessThanOrEqual(1);
    expect(attempts.reduce((sum, one) => sum + one, 0)).toBe(first);
    expect(await contradictions(bus.db)).toEqual([]);

    isDown = false;
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 756 * MINUTE });
    expect(handed).toHaveLength(2000);
    for (let key = 1; key <= 1000; key += 1) {
      expect(handed.filter((number) => number % 1000 === key % 1000)).toEqual([key, key + 1000]);
    }
    expect(await outages(bus.db)).toEqual([]);
    expect(await rows(bus.db, 'select 1 from outages')).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('holds all topics of the subscriber that wait, and no other subscriber', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitKeys(bus.db, 1, 3, (number) => `booking ${number}`);
    const down = ledger(() => absent(), WAIT);
    await drain(bus.db, [down]);
    handed.length = 0;
    await emitPayments(bus.db, 4, 6);
    await drain(bus.db, [down]);
    expect(handed).toEqual([]);
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([4, 5, 6]);
  });

  test('ends when the probe is refused: somebody is there', async ({ bus, handed, ledger }) => {
    let handle: (number: number) => unknown = () => absent();
    const attached = ledger((number) => handle(number), WAIT);
    await emitKeys(bus.db, 1, 6, (number) => `booking ${number}`);
    await drain(bus.db, [attached]);
    handed.length = 0;
    handle = (number) => number === 1 && absent('http_500');
    await drain(bus.db, [attached], { now: START + MINUTE });
    expect(handed.toSorted()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('retries at once what waits for hours because nobody was there', async ({ bus, handed, ledger }) => {
    let isDown = true;
    const attached = ledger(() => isDown && absent(), WAIT);
    await emitPayments(bus.db, 1, 1);
    for (const after of [0, 1, 6]) await drain(bus.db, [attached], { now: START + after * MINUTE });
    expect(await outages(bus.db)).toHaveLength(1);
    await emitKeys(bus.db, 2, 4, (number) => `booking ${number}`);
    isDown = false;
    handed.length = 0;
    // The lane that failed three times waits for its fourth attempt until minute 36.
    await drain(bus.db, [attached], { now: START + 7 * MINUTE });
    expect(handed.toSorted()).toEqual([1, 2, 3, 4]);
  });

  test('is probed again when the relay of a probe died', async ({ bus, handed, ledger }) => {
    await emitKeys(bus.db, 1, 5, (number) => `booking ${number}`);
    const attached = ledger(() => absent(), WAIT);
    await drain(bus.db, [attached]);
    await rows(bus.db, 'update outages set next_probe_at = $1::timestamptz', [
      new Date(START + HOUR).toISOString(),
    ]);
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 59 * MINUTE });
    expect(handed).toEqual([]);
    await drain(bus.db, [attached], { now: START + HOUR });
    expect(handed).toHaveLength(1);
  });

  test('under random failures of any kind loses nothing, keeps each key in order and counts right', async ({
    bus,
  }) => {
    const random = randomFrom(20_261_122);
    for (let round = 0; round < 4; round += 1) {
      await bus.reset();
      const handed = new Map<string, number[]>();
      let health = 1;
      const { subscriber } = await import('../../lib/subscribers/subscriber.ts');
      const attached = subscriber(
        'ledger',
        {
          'payment.captured': ({ payload, orderingKey }) => {
            if (random() > health) absent(random() < 0.8 ? 'unreachable' : 'http_500');
            handed.set(orderingKey, [...(handed.get(orderingKey) ?? []), payload.amountMinor]);
          },
        },
        { outage: 'wait', maxAttempts: 6 },
      );
      await emitKeys(bus.db, 1, 200, (number) => `booking ${number % 20}`);
      for (let step = 0; step < 30; step += 1) {
        health = [1, 0.5, 0][Math.floor(random() * 3)]!;
        await drain(bus.db, [attached], { now: START + step * 20 * MINUTE });
        expect(await contradictions(bus.db)).toEqual([]);
      }
      health = 1;
      for (let day = 1; day <= 4; day += 1) await drain(bus.db, [attached], { now: START + day * DAY });
      for (const numbers of handed.values()) expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
      expect(await outages(bus.db)).toEqual([]);
      expect(await contradictions(bus.db)).toEqual([]);
    }
  });
});

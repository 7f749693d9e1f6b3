import { describe, expect } from 'vitest';

import { emit } from '../../lib/bus/outbox/emit.ts';
import { NotDelivered, PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  START,
  contradictions,
  drain,
  emitAlone,
  emitPayments,
  numbers,
  payloadOf,
  payment,
  rows,
} from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { randomFrom } from '../support/random.ts';

const WAIT = { outage: 'wait' } as const;

/** Fails as a component elsewhere does that is not there. */
const absent = (code = 'unreachable') => {
  throw new NotDelivered(code, `nobody is there: ${code}`);
};

const outages = (db: Database) =>
  rows<{ subscriber: string; kind: string; probes: number; next: number }>(
    db,
    `select subscriber, kind, probes, (extract(epoch from next_probe_at) * 1000)::float8 as next from outages`,
  );

/** Emits a payment for each of so many ordering keys. */
async function emitKeys(
  db: Database,
  from: number,
  to: number,
  keyOf = (number: number) => `booking ${number}`,
) {
  await db.transaction(async (tx) => {
    for (let number = from; number <= to; number += 1)
      await emit(tx, 'payment.captured', payment(number), { orderingKey: keyOf(number) });
  });
}

describe('an outage', () => {
  test.for(['unreachable', 'timeout', 'http_502', 'http_503', 'http_504'])(
    'opens when a delivery fails with %s again, and its subscriber has answered nobody since',
    async (kind, { bus, ledger }) => {
      const attached = ledger(() => absent(kind), WAIT);
      await emitKeys(bus.db, 1, 3);
      expect(await drain(bus.db, [attached])).toMatchObject({ failed: 3 });
      expect(await outages(bus.db)).toEqual([]);
      await drain(bus.db, [attached], { now: START + MINUTE });
      expect(await outages(bus.db)).toEqual([
        { subscriber: 'ledger', kind, probes: 0, next: START + 2 * MINUTE },
      ]);
      const attempts = (await deliveriesOf(bus.db, 'ledger')).map((one) => one.attempts);
      expect(attempts).toEqual([1, 1, 1]);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test.for([
    [
      'a permanent error',
      () => {
        throw new PermanentError('no');
      },
    ],
    ['an error of the content', () => absent('http_500')],
  ] as const)('is not opened by %s', async ([, handle], { bus, ledger }) => {
    await emitKeys(bus.db, 0, 2);
    const attached = ledger(handle, WAIT);
    await drain(bus.db, [attached]);
    await drain(bus.db, [attached], { now: START + MINUTE });
    expect(await outages(bus.db)).toEqual([]);
  });

  test('is not opened by a delivery that always finds nobody, while its subscriber answers others between: that one is charged', async ({
    bus,
    ledger,
  }) => {
    const attached = ledger((number) => number === 1 && absent('timeout'), WAIT);
    await emitKeys(bus.db, 1, 1);
    const times = [0, 1, 6, 36, 396];
    for (const [index, minute] of times.entries()) {
      await drain(bus.db, [attached], { now: START + minute * MINUTE });
      await emitKeys(bus.db, index + 2, index + 2);
      await drain(bus.db, [attached], { now: START + minute * MINUTE + SECOND });
    }
    expect(await outages(bus.db)).toEqual([]);
    const [first] = await deliveriesOf(bus.db, 'ledger');
    expect(first).toMatchObject({ state: 'dead_lettered', attempts: 5 });
  });

  test('is not opened where the subscription does not wait', async ({ bus, ledger }) => {
    await emitKeys(bus.db, 1, 5);
    for (const minute of [0, 1])
      await drain(bus.db, [ledger(() => absent())], { now: START + minute * MINUTE });
    expect(await outages(bus.db)).toEqual([]);
  });

  test('of two hundred keys for three hours leaves no dead letter, makes one attempt a probe, and then all follow in order', async ({
    bus,
    handed,
    ledger,
  }) => {
    let isDown = true;
    const attached = ledger(() => isDown && absent(), WAIT);
    await emitKeys(bus.db, 1, 400, (number) => `booking ${number % 200}`);
    for (const minute of [0, 1]) await drain(bus.db, [attached], { now: START + minute * MINUTE });
    expect(await outages(bus.db)).toHaveLength(1);

    const probed: number[] = [];
    for (let minute = 2; minute <= 3 * 60; minute += 1) {
      const before = handed.length;
      await drain(bus.db, [attached], { now: START + minute * MINUTE });
      if (handed.length > before) probed.push(minute);
      expect(handed.length - before).toBeLessThanOrEqual(1);
    }
    expect(probed).toEqual(numbers(0, 35).map((count) => 2 + count * 5));
    // One attempt of each was made before anybody knew.
    const known = await deliveriesOf(bus.db, 'ledger');
    expect(new Set(known.map(({ state, attempts }) => `${state} ${attempts}`))).toEqual(
      new Set(['failing 1', 'pending 0']),
    );
    expect(await contradictions(bus.db)).toEqual([]);

    isDown = false;
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 182 * MINUTE });
    expect(handed).toHaveLength(400);
    for (let key = 1; key <= 200; key += 1)
      expect(handed.filter((number) => number % 200 === key % 200)).toEqual([key, key + 200]);
    expect(await outages(bus.db)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('holds all topics of the subscriber that wait, and ends where it does not wait any more', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitKeys(bus.db, 1, 3);
    const down = ledger(() => absent(), WAIT);
    for (const minute of [0, 1]) await drain(bus.db, [down], { now: START + minute * MINUTE });
    handed.length = 0;
    await emitPayments(bus.db, 4, 6);
    await drain(bus.db, [down], { now: START + MINUTE });
    expect(handed).toEqual([]);
    // One that does not wait is handed all that is due, which is what the outage left unfinished, too.
    await drain(bus.db, [ledger()], { now: START + MINUTE });
    expect(handed.toSorted()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('is probed by a lane that may hand something over, not by one that waits behind a backfill', async ({
    bus,
  }) => {
    let isDown = true;
    const handed: string[] = [];
    const handle = ({ topic }: { readonly topic: string }) => {
      if (isDown) absent();
      handed.push(topic);
    };
    const attached = subscriber('ledger', { 'payment.captured': handle, 'payment.refunded': handle }, WAIT);
    await emitAlone(bus.db, 'payment.refunded', payloadOf('payment.refunded'));
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    await rows(
      bus.db,
      `insert into backfills (id, topic, subscriber, since, requested_at, requested_by, matched, next_at)
       values (gen_random_uuid(), 'payment.refunded', 'ledger', $1::timestamptz, $1::timestamptz, 'kari', 1, $1::timestamptz + '1 day')`,
      [new Date(START).toISOString()],
    );
    for (const minute of [0, 1]) await drain(bus.db, [attached], { now: START + minute * MINUTE });
    expect(await outages(bus.db)).toHaveLength(1);
    isDown = false;
    await drain(bus.db, [attached], { now: START + 3 * MINUTE });
    expect(handed).toEqual(['payment.captured']);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('ends when the probe is refused: somebody is there', async ({ bus, handed, ledger }) => {
    let handle: (number: number) => unknown = () => absent();
    const attached = ledger((number) => handle(number), WAIT);
    await emitKeys(bus.db, 1, 6);
    for (const minute of [0, 1]) await drain(bus.db, [attached], { now: START + minute * MINUTE });
    handed.length = 0;
    handle = () => handed.length === 1 && absent('http_500');
    await drain(bus.db, [attached], { now: START + 2 * MINUTE });
    expect(handed.toSorted()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('retries at once, when it is over, what waits for hours because nobody was there', async ({
    bus,
    handed,
    ledger,
  }) => {
    let isDown = false;
    const attached = ledger((number) => (number === 1 || isDown) && absent(), WAIT);
    await emitKeys(bus.db, 1, 1);
    // It is charged four times, because others are answered meanwhile.
    for (const [index, minute] of [0, 1, 6, 36].entries()) {
      await drain(bus.db, [attached], { now: START + minute * MINUTE });
      await emitKeys(bus.db, index + 2, index + 2);
      await drain(bus.db, [attached], { now: START + minute * MINUTE + SECOND });
    }
    const [first] = await deliveriesOf(bus.db, 'ledger');
    expect(first).toMatchObject({ attempts: 4, nextAttemptAt: START + 36 * MINUTE + 6 * HOUR });
    isDown = true;
    await emitKeys(bus.db, 6, 6);
    for (const minute of [40, 41]) await drain(bus.db, [attached], { now: START + minute * MINUTE });
    expect(await outages(bus.db)).toHaveLength(1);
    isDown = false;
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 42 * MINUTE });
    expect(handed).toEqual([6, 1]);
  });

  test('is probed again when the relay of a probe died', async ({ bus, handed, ledger }) => {
    await emitKeys(bus.db, 1, 5);
    const attached = ledger(() => absent(), WAIT);
    for (const minute of [0, 1]) await drain(bus.db, [attached], { now: START + minute * MINUTE });
    await rows(bus.db, 'update outages set probed_at = $1::timestamptz, next_probe_at = $2::timestamptz', [
      new Date(START + 2 * MINUTE).toISOString(),
      new Date(START + HOUR).toISOString(),
    ]);
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 59 * MINUTE });
    expect(handed).toEqual([]);
    await drain(bus.db, [attached], { now: START + HOUR });
    expect(handed).toHaveLength(1);
  });

  test('leaves a lane of 87 five minutes from its next try after an error of its own, not six hours', async ({
    bus,
    handed,
    ledger,
  }) => {
    let code: string | null = 'unreachable';
    const attached = ledger(() => code !== null && absent(code), WAIT);
    await emitPayments(bus.db, 1, 87);
    for (const minute of [0, 1, 2, 7, 12, 17])
      await drain(bus.db, [attached], { now: START + minute * MINUTE });
    const [{ attempts, log }] = (await deliveriesOf(bus.db, 'ledger')) as [
      Awaited<ReturnType<typeof deliveriesOf>>[0],
    ];
    expect([attempts, log!.map(({ outcome }) => outcome)]).toEqual([
      1,
      ['failed', 'waited', 'waited', 'waited', 'waited', 'waited'],
    ]);
    code = 'http_500';
    await drain(bus.db, [attached], { now: START + 22 * MINUTE });
    expect(await outages(bus.db)).toEqual([]);
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({
      state: 'failing',
      attempts: 2,
      nextAttemptAt: START + 27 * MINUTE,
    });
    code = null;
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 27 * MINUTE });
    expect(handed).toEqual(numbers(1, 87));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('under random failures of any kind loses nothing, keeps each key in order and counts right', async ({
    bus,
  }) => {
    const random = randomFrom(20_261_122);
    for (let round = 0; round < 4; round += 1) {
      await bus.reset();
      const handed = new Map<string, number[]>();
      let health = 1;
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

import { describe, expect } from 'vitest';

import { publishLimits } from '../../lib/bus/deliveries/limits.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import type { RelayReport } from '../../lib/bus/relay/relay.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, SubscriberOptions } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { HOUR, MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  START,
  WAITING,
  contradictions,
  drain,
  drainLive,
  emitPayments,
  gate,
  numbers,
  openTransaction,
  payment,
  rows,
  storeBacklog,
  emitAlone,
} from '../support/bus.ts';
import { countDeliveries } from '../support/records.ts';
import { expireLeases, holdLanes } from '../support/scenes.ts';

/** Relays four times at once, as four processes do, at each time. */
async function fourRelays(db: Database, attached: readonly AttachedSubscriber[], times: readonly number[]) {
  const reports: RelayReport[] = [];
  for (const now of times)
    reports.push(
      ...(await Promise.all(
        [1, 2, 3, 4].map(() => relay({ db, subscribers: attached, until: Date.now() + 45_000, now })),
      )),
    );
  return reports;
}

const each = (ms: number, during: number, from = START) =>
  numbers(0, during / ms - 1).map((tick) => from + tick * ms);

const absent = () => {
  throw Object.assign(new Error('nobody is there'), { code: 'unreachable' });
};

const burnt = (db: Database) => countDeliveries(db, 'attempts > 1 or attempt_log is not null');

describe('a rate', () => {
  test('is kept by four relays together, within a twentieth, in order and without a failed attempt', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    await storeBacklog(db, 'payment.captured', 1000);
    await fourRelays(db, [ledger(undefined, { rate: '600/m' })], each(SECOND, MINUTE));
    expect(handed.length).toBeGreaterThanOrEqual(570);
    expect(handed.length).toBeLessThanOrEqual(630);
    expect(handed).toEqual(numbers(1, handed.length));
    expect(await burnt(db)).toBe(0);
    expect(await contradictions(db)).toEqual([]);
  });

  test('holds for replays too, and for the subscriber’s topics together', async ({ bus: { db } }) => {
    let count = 0;
    const handler = () => void (count += 1);
    const ledger = subscriber('ledger', { 'payment.captured': handler, 'payment.refunded': handler });
    const limited = subscriber(
      'ledger',
      { 'payment.captured': handler, 'payment.refunded': handler },
      { rate: '40/m' },
    );
    await storeBacklog(db, 'payment.captured', 100);
    await storeBacklog(db, 'payment.refunded', 100);
    await drain(db, [ledger]);
    expect(count).toBe(200);
    for (const topic of ['payment.captured', 'payment.refunded']) {
      const everything = { topic, subscriber: 'ledger', since: '1d', include: 'all' } as const;
      expect(await replay(db, everything, 'kari', new Date(START))).toMatchObject({ replayed: 100 });
    }
    count = 0;
    await fourRelays(db, [limited], each(SECOND, MINUTE, START + SECOND));
    expect(count).toBeGreaterThanOrEqual(38);
    expect(count).toBeLessThanOrEqual(42);
  });

  test('holds for one that is tried again and what is behind it, together', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    let isDown = true;
    const limited = ledger(
      () => {
        if (isDown) throw new Error('not yet');
      },
      { rate: '100/m' },
    );
    await emitPayments(db, 1, 20);
    await drain(db, [limited]);
    isDown = false;
    await drain(db, [limited], { now: START + HOUR });
    expect(handed).toEqual([1, ...numbers(1, 5)]);
  });

  test('tells when the next delivery is allowed, so that a relay begins then', async ({
    bus: { db },
    ledger,
  }) => {
    await emitPayments(db, 1, 3);
    const { nextRetryAt } = await drain(db, [ledger(undefined, { rate: '6/m' })]);
    expect(nextRetryAt).toBe(START + 10 * SECOND);
  });

  test('is used up by what is handed over, not by what was replayed into the lane of a relay that died', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    await emitPayments(db, 1, 30);
    await drain(db, [ledger()]);
    await emitPayments(db, 31, 31);
    await drain(db, []);
    await holdLanes(db, { subscriber: 'ledger', until: new Date(START + 30 * SECOND) });
    const replayed = {
      topic: 'payment.captured',
      subscriber: 'ledger',
      since: '1d',
      include: 'all',
    } as const;
    await replay(db, replayed, 'kari', new Date(START + SECOND));
    handed.length = 0;
    const limited = [ledger(undefined, { rate: '10/m' })];
    const first = await drain(db, limited, { now: START + MINUTE });
    expect(first).toMatchObject({ failed: 1, nextRetryAt: START + MINUTE + 6 * SECOND });
    await drain(db, limited, { now: START + MINUTE + 6 * SECOND });
    expect(handed).toEqual([1]);
  });

  test('lets a tenant’s one event pass another’s many, also in the lane that they share, each in order', async ({
    bus: { db },
  }) => {
    const [{ key }] = (await rows<{ key: string }>(
      db,
      `select 'other ' || number as key from generate_series(1, 100) as number
       where postbud_slot('other ' || number) = postbud_slot('many') limit 1`,
    )) as [{ key: string }];
    await emitPayments(db, 1, 600, { orderingKey: 'many' });
    await emitAlone(db, 'payment.captured', payment(1001), { orderingKey: key });
    const handed: number[] = [];
    const ledger = subscriber(
      'ledger',
      { 'payment.captured': ({ payload }) => void handed.push(payload.amountMinor) },
      { rate: '60/m' },
    );
    await fourRelays(db, [ledger], each(SECOND, 30 * SECOND));
    expect(handed.indexOf(1001)).toBeGreaterThanOrEqual(0);
    expect(handed.indexOf(1001)).toBeLessThanOrEqual(4);
    const many = handed.filter((number) => number <= 600);
    expect(many).toEqual(numbers(1, many.length));
    await emitPayments(db, 601, 601, { orderingKey: 'many' });
    await publishLimits(db, [subscriber('ledger', {})]);
    await drain(
      db,
      [subscriber('ledger', { 'payment.captured': ({ payload }) => void handed.push(payload.amountMinor) })],
      {
        now: START + MINUTE,
      },
    );
    expect(handed.filter((number) => number <= 601)).toEqual(numbers(1, 601));
    expect(await burnt(db)).toBe(0);
    expect(await contradictions(db)).toEqual([]);
  });

  test('holds for the probe of an outage, and for what follows it', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    for (const number of numbers(1, 10))
      await emitPayments(db, number, number, { orderingKey: `booking ${number}` });
    let isDown = true;
    const limited = ledger(() => isDown && absent(), { rate: '60/m', outage: 'wait' });
    await fourRelays(db, [limited], each(SECOND, 5 * SECOND));
    // Those that are tried again find nobody since.
    await fourRelays(db, [limited], [START + 2 * MINUTE]);
    expect(await rows(db, 'select from outages')).toHaveLength(1);
    isDown = false;
    handed.length = 0;
    const handedBy = async (seconds: number) => {
      await fourRelays(db, [limited], [START + 10 * MINUTE + seconds * SECOND]);
      return handed.length;
    };
    // Three at once, and the probe is one of them.
    expect([await handedBy(0), await handedBy(1), await handedBy(2)]).toEqual([3, 4, 5]);
    await fourRelays(db, [limited], each(SECOND, 10 * SECOND, START + 11 * MINUTE));
    expect(handed.toSorted((one, other) => one - other)).toEqual(numbers(1, 10));
    expect(await contradictions(db)).toEqual([]);
  });

  test('is not in the way of other subscribers', async ({ bus: { db }, handed, ledger }) => {
    await emitPayments(db, 1, 50);
    const others: number[] = [];
    const bookings = subscriber('bookings', {
      'payment.captured': ({ payload }) => void others.push(payload.amountMinor),
    });
    await drain(db, [ledger(undefined, { rate: '1/h' }), bookings]);
    expect([handed, others]).toEqual([[1], numbers(1, 50)]);
  });
});

test.for([
  ['', 15, 'select'],
  [
    ', also beside a halted lane',
    15,
    `insert into exceptions (lane, position, event_id, ordering_key, state, is_open, dead_lettered_at)
     values (-1, 1, gen_random_uuid(), '', 'dead_lettered', true, now())`,
  ],
  [', also by handlers that take long', 400, 'select'],
] as const)(
  'a concurrency holds over four relays together, and keeps every key in order%s',
  async ([, ms, beside], { bus: { db } }) => {
    await rows(db, beside);
    const keys = numbers(1, 12).map((key) => `tenant ${key}`);
    for (const orderingKey of keys) await emitPayments(db, 1, 4, { orderingKey });
    let running = 0;
    let most = 0;
    const handed = new Map<string, number[]>();
    const ledger = subscriber(
      'ledger',
      {
        async 'payment.captured'({ orderingKey, payload }) {
          running += 1;
          most = Math.max(most, running);
          handed.set(orderingKey, [...(handed.get(orderingKey) ?? []), payload.amountMinor]);
          await sleep(ms);
          running -= 1;
        },
      },
      { concurrency: 3 },
    );
    await Promise.all([1, 2, 3, 4].map(() => drainLive(db, [ledger])));
    await drainLive(db, [ledger]);
    expect(most).toBe(3);
    expect([...handed.values()]).toEqual(keys.map(() => [1, 2, 3, 4]));
    expect(await burnt(db)).toBe(0);
    expect(await contradictions(db)).toEqual([]);
  },
);

test('a concurrency holds where a lease has ended, its place is taken, and it is extended', async ({
  bus: { db },
}) => {
  // The other's lane was served longer ago, so that it comes first when it has something again.
  await emitPayments(db, 5, 5, { orderingKey: 'other' });
  await drainLive(db, [subscriber('ledger', { 'payment.captured': () => undefined })]);
  for (const amount of numbers(1, 3)) await emitPayments(db, amount, amount, { orderingKey: 'late' });
  await drainLive(db, []);
  const otherBegan = gate();
  let other: Promise<unknown> = Promise.resolve();
  let isOtherRunning = false;
  const began: [number, boolean][] = [];
  const ledger = subscriber(
    'ledger',
    {
      async 'payment.captured'({ payload: { amountMinor: amount } }) {
        began.push([amount, isOtherRunning]);
        if (amount === 1) {
          // As if the clock had jumped, or the process had stood still.
          await emitPayments(db, 4, 4, { orderingKey: 'other' });
          await drainLive(db, []);
          await expireLeases(db);
          other = drainLive(db, [ledger]);
          await otherBegan.opened;
        }
        // Longer than it takes until what has ended is settled.
        if (amount === 2) await sleep(1000);
        if (amount !== 4) return;
        isOtherRunning = true;
        otherBegan.open();
        await sleep(2000);
        isOtherRunning = false;
      },
    },
    { concurrency: 1 },
  );
  await drainLive(db, [ledger]);
  await other;
  await drainLive(db, [ledger]);
  expect(began).toEqual([
    [1, false],
    [4, false],
    // It may begin before anybody knows.
    [2, expect.any(Boolean)],
    [3, false],
  ]);
});

test('a place of a relay that died is free when its lease is over', async ({
  bus: { db },
  handed,
  ledger,
}) => {
  const [{ key }] = (await rows<{ key: string }>(
    db,
    `select 'other ' || number as key from generate_series(1, 100) as number
     where postbud_slot('other ' || number) <> postbud_slot('held') limit 1`,
  )) as [{ key: string }];
  await emitPayments(db, 1, 1, { orderingKey: 'held' });
  await drain(db, []);
  await holdLanes(db, { subscriber: 'ledger', until: new Date(START + MINUTE) });
  await emitPayments(db, 2, 2, { orderingKey: key });
  const limited = ledger(undefined, { concurrency: 1 });
  await drain(db, [limited]);
  expect(handed).toEqual([]);
  await drain(db, [limited], { now: START + 2 * MINUTE });
  await drain(db, [limited], { now: START + 4 * MINUTE });
  expect(handed).toEqual([2, 1]);
});

test.for<[SubscriberOptions, RegExp]>([
  [{ rate: '600' }, /expected a rate such as '10\/s', '600\/m', '5000\/h' or '1000\/d', not '600'/],
  [{ rate: '0/m' }, /not '0\/m'/],
  [{ rate: '9999999/s' }, /not '9999999\/s'/],
  [{ concurrency: 0 }, /expected a concurrency of 1 to 1000, not 0/],
  [{ concurrency: 1.5 }, /not 1\.5/],
])('a subscriber with %j is refused', ([options, message]) => {
  expect(() => subscriber('ledger', {}, options)).toThrow(message);
});

test('limits that somebody holds are given up on after a time, and no statement is left waiting', async ({
  bus,
  ledger,
}) => {
  await publishLimits(bus.db, [ledger(undefined, { concurrency: 1 })]);
  const holder = await openTransaction(bus.url);
  await holder.client.query('select from subscriber_limits for update');
  const publishing = publishLimits(bus.db, [ledger(undefined, { concurrency: 2 })]);
  await expect(publishing).rejects.toMatchObject({ code: '57014' });
  expect(await rows(bus.db, WAITING)).toEqual([]);
  await holder.commit();
});

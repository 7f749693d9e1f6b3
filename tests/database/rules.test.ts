import { describe, expect, vi } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { errorGroupOf } from '../../lib/bus/deliveries/error-group.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { BusEvent, DeliveryContext, SubscriberOptions } from '../../lib/bus/subscribers/subscriber.ts';
import { DAY, HOUR, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import type { MakeLedger } from '../support/bus-test.ts';
import {
  contradictions,
  drain,
  emitPayments,
  eventStates,
  gate,
  payment,
  rows,
  START,
} from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';

type Payment = BusEvent<'payment.captured'>;

const only = async (bus: Bus, name: string) => (await deliveriesOf(bus.db, name))[0]!;

describe('the relay hands an event to every subscriber in the catalog, each independent of the others (rule 2), and', () => {
  test('makes one delivery for each subscriber of the catalog', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    const subscribers = (await deliveriesOf(bus.db)).map(({ subscriber: name }) => name);
    expect(subscribers).toEqual([...catalog['payment.captured'].subscribers].toSorted());
  });

  test('delivers to the siblings of a failing one at once, and does not repeat them', async ({
    bus,
    ledger,
  }) => {
    const told: string[] = [];
    const sibling = (name: 'bookings' | 'notifications' | 'accounting') =>
      subscriber(name, { 'payment.captured': () => void told.push(name) });
    const all = [
      sibling('bookings'),
      ledger(() => {
        throw new Error('down');
      }),
      sibling('notifications'),
      sibling('accounting'),
    ];
    await emitPayments(bus.db, 1, 1);
    expect(await drain(bus.db, all)).toMatchObject({ delivered: 3, failed: 1 });
    expect(await drain(bus.db, all, { now: START + MINUTE })).toMatchObject({ delivered: 0, failed: 1 });
    expect(told.toSorted()).toEqual(['accounting', 'bookings', 'notifications']);
  });

  test('hands over the stored payload and every other field of the event', async ({ bus, ledger }) => {
    let seen: Payment | undefined;
    const id = await bus.db.transaction(
      async (tx) =>
        (
          await emit(tx, 'payment.captured', payment(7), {
            correlationId: 'request-1',
            causationId: 'event-0',
          })
        ).id,
    );
    await drain(bus.db, [ledger((_, __, event) => (seen = event))]);
    const [stored] = await rows<{ at: number; seq: number }>(
      bus.db,
      'select floor(extract(epoch from created_at) * 1000)::float8 as at, seq::float8 as seq from events',
    );
    expect(seen).toEqual({
      id,
      topic: 'payment.captured',
      payload: payment(7),
      version: 1,
      producer: 'payments',
      createdAt: new Date(stored!.at),
      seq: stored!.seq,
      orderingKey: '',
      correlationId: 'request-1',
      causationId: 'event-0',
      traceparent: null,
      erased: false,
    });
  });

  test('protects the event from changes by another handler', async ({ bus, ledger }) => {
    const attempts: boolean[] = [];
    const vandal = subscriber('bookings', {
      'payment.captured': (event) => {
        attempts.push(Reflect.set(event.payload, 'amountMinor', 0), Reflect.set(event, 'topic', 'x'));
        event.createdAt.setTime(0);
      },
    });
    const seen: Payment[] = [];
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [vandal, ledger((_, __, event) => seen.push(event))]);
    expect(attempts).toEqual([false, false]);
    expect(seen[0]!.payload.amountMinor).toBe(1);
    expect(seen[0]!.createdAt.getTime()).toBeGreaterThan(0);
  });
});

describe('a failed delivery (rule 4)', () => {
  const refusing = (ledger: MakeLedger, options: SubscriberOptions = {}) =>
    ledger((number, { attempt }) => {
      if (number === 1) throw new TypeError(`attempt ${attempt}`);
    }, options);

  /** When the attempts are due, counted from the first. */
  const dueAfter = [0, MINUTE, 6 * MINUTE, 36 * MINUTE, 6 * HOUR + 36 * MINUTE];

  test('is tried five times, each to the millisecond, then becomes a dead letter with all five errors, and its lane continues', async ({
    bus,
    handed,
    ledger,
  }) => {
    const attached = [refusing(ledger)];
    await emitPayments(bus.db, 1, 2);
    const states: (string | undefined)[] = [(await eventStates(bus.db))[0]];
    for (const [index, after] of dueAfter.entries()) {
      if (index > 0) {
        expect(await drain(bus.db, attached, { now: START + after - 1 })).toMatchObject({
          failed: 0,
          delivered: 0,
        });
      }
      expect(handed).toHaveLength(index);
      const report = await drain(bus.db, attached, { now: START + after });
      const isLast = index === dueAfter.length - 1;
      expect(report).toMatchObject({
        failed: isLast ? 0 : 1,
        deadLettered: isLast ? 1 : 0,
        delivered: isLast ? 1 : 0,
        nextRetryAt: isLast ? null : START + dueAfter[index + 1]!,
      });
      states.push((await eventStates(bus.db))[0]);
      expect(await contradictions(bus.db)).toEqual([]);
    }
    expect(handed).toEqual([1, 1, 1, 1, 1, 2]);
    expect(states).toEqual(['pending', 'failing', 'failing', 'failing', 'failing', 'dead_lettered']);
    const { log, ...delivery } = await only(bus, 'ledger');
    expect(delivery).toMatchObject({ attempts: 5, nextAttemptAt: null, deliveredAt: null });
    expect(delivery.deadLetteredAt).toBeGreaterThanOrEqual(START + dueAfter[4]!);
    expect(log!.map(({ durationMs, ...entry }) => ({ ...entry, hasDuration: durationMs >= 0 }))).toEqual(
      dueAfter.map((after, index) => ({
        attempt: index + 1,
        at: new Date(START + after).toISOString(),
        outcome: 'failed',
        kind: 'TypeError',
        message: `attempt ${index + 1}`,
        group: errorGroupOf('payment.captured', 'ledger', 'TypeError', 'attempt 1').key,
        hasDuration: true,
      })),
    );
  });

  test('waits a day before a sixth attempt where the subscription declares six', async ({
    bus,
    handed,
    ledger,
  }) => {
    const attached = [refusing(ledger, { maxAttempts: 6 })];
    await emitPayments(bus.db, 1, 1);
    for (const after of dueAfter) await drain(bus.db, attached, { now: START + after });
    expect(await only(bus, 'ledger')).toMatchObject({
      state: 'failing',
      nextAttemptAt: START + dueAfter[4]! + DAY,
    });
    await drain(bus.db, attached, { now: START + dueAfter[4]! + DAY - 1 });
    expect(handed).toHaveLength(5);
    await drain(bus.db, attached, { now: START + dueAfter[4]! + DAY });
    expect(await only(bus, 'ledger')).toMatchObject({ state: 'dead_lettered', attempts: 6 });
  });

  test('becomes a dead letter at once after a PermanentError, and its lane continues', async ({
    bus,
    handed,
    ledger,
  }) => {
    const attached = [
      ledger((number) => {
        if (number === 1) throw new PermanentError('no such account');
      }),
    ];
    await emitPayments(bus.db, 1, 2);
    expect(await drain(bus.db, attached)).toMatchObject({ deadLettered: 1, delivered: 1, failed: 0 });
    expect(handed).toEqual([1, 2]);
    expect(await only(bus, 'ledger')).toMatchObject({
      state: 'dead_lettered',
      attempts: 1,
      log: [{ attempt: 1, outcome: 'failed', kind: 'permanent', message: 'no such account' }],
    });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('waits as long as a RetryAfter says, uses no attempt and holds its lane', async ({
    bus,
    handed,
    ledger,
  }) => {
    const attached = [
      ledger((number, { attempt }) => {
        if (number === 1 && handed.length <= 2) throw new RetryAfter(90_000);
        expect(attempt).toBe(1);
      }),
    ];
    await emitPayments(bus.db, 1, 2);
    expect(await drain(bus.db, attached)).toMatchObject({
      waited: 1,
      failed: 0,
      nextRetryAt: START + 90_000,
    });
    expect(await only(bus, 'ledger')).toMatchObject({
      state: 'pending',
      attempts: 0,
      nextAttemptAt: START + 90_000,
    });
    expect(await eventStates(bus.db)).toEqual(['pending', 'pending']);
    await drain(bus.db, attached, { now: START + 89_999 });
    expect(handed).toEqual([1]);
    await drain(bus.db, attached, { now: START + 90_000 });
    await drain(bus.db, attached, { now: START + 180_000 });
    expect(handed).toEqual([1, 1, 1, 2]);
    const { log, ...delivery } = await only(bus, 'ledger');
    expect(delivery).toMatchObject({ state: 'delivered', attempts: 1 });
    expect(log!.map(({ outcome }) => outcome)).toEqual(['waited', 'waited']);
  });

  test('stays failing, with its attempts, when its handler then asks for time', async ({
    bus,
    handed,
    ledger,
  }) => {
    const attached = [
      ledger(() => {
        throw handed.length === 1 ? new Error('down') : new RetryAfter(1000);
      }),
    ];
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, attached);
    await drain(bus.db, attached, { now: START + MINUTE });
    expect(await only(bus, 'ledger')).toMatchObject({
      state: 'failing',
      attempts: 1,
      nextAttemptAt: START + MINUTE + 1000,
    });
    expect(await eventStates(bus.db)).toEqual(['failing']);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test("has failed when its handler exceeds the time limit, which aborts the handler's signal", async ({
    bus,
    handed,
    ledger,
  }) => {
    const aborted: unknown[] = [];
    const attached = [
      ledger(
        (_, { signal }) =>
          new Promise(() =>
            signal.addEventListener('abort', () => aborted.push(signal.reason), { once: true }),
          ),
        { timeoutMs: 30 },
      ),
    ];
    await emitPayments(bus.db, 1, 2);
    expect(await drain(bus.db, attached)).toMatchObject({ failed: 1, delivered: 0 });
    expect(aborted).toMatchObject([{ code: 'timeout' }]);
    expect(handed).toEqual([1]);
    expect(await only(bus, 'ledger')).toMatchObject({
      state: 'failing',
      attempts: 1,
      log: [{ kind: 'timeout', message: 'the handler had not finished after 30 ms' }],
    });
  });

  test('does not wait for a handler that ignores its signal, and ignores its later outcome', async ({
    bus,
    ledger,
  }) => {
    const late = gate();
    const attached = [ledger(() => late.opened, { timeoutMs: 20 })];
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, attached);
    late.open();
    await drain(bus.db, attached);
    expect(await only(bus, 'ledger')).toMatchObject({ state: 'failing', attempts: 1 });
  });

  test('gives a handler that asks for its signal late an aborted signal', async ({ bus, ledger }) => {
    let context: DeliveryContext | undefined;
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [
      ledger((_, given) => ((context = given), new Promise(() => undefined)), { timeoutMs: 20 }),
    ]);
    expect(context!.signal.aborted).toBe(true);
  });

  /** Each must become one failed attempt of one delivery, and must not affect the others. */
  const oddities: [what: string, thrown: () => unknown, log: object][] = [
    ['a string', () => 'just text', { kind: 'thrown', message: 'just text' }],
    ['undefined', () => undefined, { kind: 'thrown', message: 'undefined' }],
    ['a symbol', () => Symbol('s'), { kind: 'thrown' }],
    ['an object that is no text', () => Object.create(null), { kind: 'thrown' }],
    ['an error whose message holds U+0000', () => new Error('a\0b'), { kind: 'Error', message: 'ab' }],
    ['a string with U+0000', () => 'a\0b', { kind: 'thrown', message: 'ab' }],
    ['an error with half a surrogate pair', () => new Error('a\ud800b'), { kind: 'Error' }],
    ['a message whose cut goes through a pair', () => new Error(`${'x'.repeat(1999)}😀`), { kind: 'Error' }],
    ['a message of a megabyte', () => new Error('x'.repeat(1_000_000)), { message: 'x'.repeat(2000) }],
    [
      'an error whose name holds U+0000',
      () => Object.assign(new Error('m'), { name: 'a\0b' }),
      { message: 'm' },
    ],
    [
      'an error whose code holds U+0000',
      () => Object.assign(new Error('m'), { code: 'a\0b' }),
      { message: 'm' },
    ],
    [
      'an error whose code is cut through a pair',
      () => Object.assign(new Error('m'), { code: `${'x'.repeat(99)}😀` }),
      { message: 'm' },
    ],
    [
      'an error whose name is of a megabyte',
      () => Object.assign(new Error('m'), { name: 'n'.repeat(1e6) }),
      {},
    ],
    ['an error whose message is a number', () => Object.assign(new Error(), { message: 5 }), {}],
    [
      'an error that throws when it is read',
      () =>
        new Proxy(new Error(), {
          get: () => {
            throw new Error('trap');
          },
        }),
      {},
    ],
    ['a RetryAfter longer than time', () => new RetryAfter(Number.MAX_VALUE), {}],
    [
      'a RetryAfter of its own making, of NaN',
      () => Object.assign(new Error('m'), { code: 'retry_after', ms: Number.NaN }),
      {},
    ],
    [
      'a RetryAfter of its own making, into the past',
      () => Object.assign(new Error('m'), { code: 'retry_after', ms: -1e9 }),
      {},
    ],
  ];

  test.for(oddities)(
    'is recorded once, and holds up no other subscriber, when its handler throws %s',
    async ([, thrown, log], { bus, ledger }) => {
      const others: number[] = [];
      const sibling = subscriber('bookings', {
        'payment.captured': ({ payload }) => void others.push(payload.amountMinor),
      });
      const attached = [
        ledger(() => {
          throw thrown();
        }),
        sibling,
      ];
      await emitPayments(bus.db, 1, 2);
      expect(await drain(bus.db, attached)).toMatchObject({ delivered: 2 });
      expect(others).toEqual([1, 2]);
      const stored = await only(bus, 'ledger');
      expect(stored.log).toHaveLength(1);
      expect(stored).toMatchObject({ log: [log] });
      expect(stored.nextAttemptAt).toBeGreaterThan(START);
      expect(JSON.stringify(stored.log).length).toBeLessThan(5000);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );
});

describe('the relay (rule 5)', () => {
  test('begins nothing after its time is up, and leaves the rest untried', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 5);
    expect(await drain(bus.db, [ledger()], { until: Date.now() - 1 })).toMatchObject({
      ticks: 0,
      delivered: 0,
    });
    let now = performance.now();
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
    const slow = ledger((number) => void (now += number === 2 ? MINUTE : 0));
    expect(await drain(bus.db, [slow], { until: Date.now() + MINUTE })).toMatchObject({ delivered: 2 });
    clock.mockRestore();
    expect(
      (await deliveriesOf(bus.db, 'ledger')).map(({ state, attempts }) => `${state} ${attempts}`),
    ).toEqual(['delivered 1', 'delivered 1', 'pending 0', 'pending 0', 'pending 0']);
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2, 3, 4, 5]);
  });

  test('aborts the running handler when it is told to stop, as if the delivery had not been tried', async ({
    bus,
    handed,
    ledger,
  }) => {
    const stop = new AbortController();
    const attached = [
      ledger((number, { signal }) => {
        if (number !== 3) return undefined;
        setImmediate(() => stop.abort());
        return new Promise((_, reject) =>
          signal.addEventListener('abort', () => reject(new Error('cut off'))),
        );
      }),
    ];
    await emitPayments(bus.db, 1, 4);
    expect(await drain(bus.db, attached, { signal: stop.signal })).toMatchObject({ delivered: 2, failed: 0 });
    expect(
      (await deliveriesOf(bus.db, 'ledger')).map(({ state, attempts }) => `${state} ${attempts}`),
    ).toEqual(['delivered 1', 'delivered 1', 'pending 0', 'pending 0']);
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2, 3, 3, 4]);
  });

  test('does nothing when it is told to stop before it begins', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1);
    expect(await drain(bus.db, [ledger()], { signal: AbortSignal.abort() })).toMatchObject({ ticks: 0 });
  });

  test('refuses to attach one subscription twice', async ({ bus, ledger }) => {
    await expect(drain(bus.db, [ledger(), ledger()])).rejects.toThrow(
      'ledger is attached to payment.captured twice',
    );
  });
});

describe('an unattached subscriber (rule 9)', () => {
  test('keeps its deliveries pending, and is handed them in order once it is attached', async ({
    bus,
    handed,
    ledger,
  }) => {
    const bookings = subscriber('bookings', { 'payment.captured': () => undefined });
    await emitPayments(bus.db, 1, 3);
    expect(await drain(bus.db, [bookings])).toMatchObject({ placed: 3, delivered: 3 });
    await emitPayments(bus.db, 4, 4);
    await drain(bus.db, [bookings], { now: START + 30 * DAY });
    const waiting = await deliveriesOf(bus.db, 'ledger');
    expect(waiting.map(({ state, attempts }) => `${state} ${attempts}`)).toEqual(Array(4).fill('pending 0'));
    expect(await eventStates(bus.db)).toEqual(Array(4).fill('pending'));
    await drain(bus.db, [bookings, ledger()], { now: START + 31 * DAY });
    expect(handed).toEqual([1, 2, 3, 4]);
  });

  test('is one without a handler for the topic, even if it has a handler for another', async ({
    bus,
    ledger,
  }) => {
    const elsewhere = subscriber('ledger', { 'payment.refunded': () => undefined });
    await emitPayments(bus.db, 1, 1);
    expect(await drain(bus.db, [elsewhere])).toMatchObject({ placed: 1, delivered: 0 });
    expect(await drain(bus.db, [ledger()])).toMatchObject({ delivered: 1 });
  });

  test('keeps an event pending until it has received it', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1);
    const others = (['bookings', 'notifications', 'accounting'] as const).map((name) =>
      subscriber(name, { 'payment.captured': () => undefined }),
    );
    await drain(bus.db, others);
    expect(await eventStates(bus.db)).toEqual(['pending']);
    await drain(bus.db, [ledger()]);
    expect(await eventStates(bus.db)).toEqual(['delivered']);
  });
});

import { PGlite } from '@electric-sql/pglite';
import { sql } from 'drizzle-orm';
import { receiver, RECEIVED_TABLE } from 'postbud/receive';
import { elsewhere, testBus } from 'postbud/testing';
import type { TestBus } from 'postbud/testing';
import { afterAll, beforeAll, describe, expect, vi } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { HOUR } from '../../lib/platform/time.ts';
import { rows } from '../support/bus.ts';
import { statesOf } from '../support/records.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';
import { busTest as test } from '../support/test-bus.ts';

const START = '2031-05-04T10:00:00.000Z';
const START_MS = Date.parse(START);

describe('a handler on a test bus', () => {
  test('is handed an event with the fields that matter and those of the example', async ({ open }) => {
    const bus = await open([ledger()], { now: START });
    const { id } = await bus.emit('payment.captured', { amountMinor: 17 });
    expect(await bus.drain()).toEqual({
      delivered: 1,
      failed: 0,
      waited: 0,
      deadLettered: 0,
      errors: [],
      nextRetryAt: null,
    });
    const [received, ...others] = bus.received('ledger', 'payment.captured');
    expect(others).toEqual([]);
    expect(received).toMatchObject({
      subscriber: 'ledger',
      event: { id, topic: 'payment.captured', payload: { amountMinor: 17, currency: 'NOK' } },
      attempt: 1,
      replayed: false,
      outcome: 'delivered',
      error: null,
    });
    expect(received!.event.createdAt).toEqual(bus.clock.now());
  });

  test('does its database work once when the same event is handed to it twice', async ({ open }) => {
    const once = subscriber(
      'ledger',
      {
        'payment.captured': async (event, { tx }) =>
          void (await tx.execute(sql`insert into entries values (${event.id}) on conflict do nothing`)),
      },
      { transactional: true },
    );
    const bus = await open([once]);
    await bus.db.execute(sql`create table entries (event_id text primary key)`);
    await bus.emit('payment.captured');
    expect(await bus.drain()).toMatchObject({ delivered: 1, errors: [] });
    expect(await bus.replay('payment.captured', { include: 'all', subscriber: 'ledger' })).toEqual({
      matched: 1,
      replayed: 1,
    });
    expect(await bus.drain()).toMatchObject({ delivered: 1, errors: [] });
    expect(bus.received('ledger').map(({ replayed, outcome }) => [replayed, outcome])).toEqual([
      [false, 'delivered'],
      [true, 'delivered'],
    ]);
    expect(await rows(bus.db, 'select from entries')).toHaveLength(1);
  });

  test('is handed what a timer becomes once the clock has moved on to it, whoever set the timer', async ({
    open,
  }) => {
    const sets = subscriber(
      'ledger',
      {
        'payment.captured': async (_, { tx }) => {
          await emit(tx, 'payment.refunded', catalog['payment.refunded'].example, { at: '2h' });
        },
        'payment.refunded': () => undefined,
      },
      { transactional: true },
    );
    const bus = await open([sets], { now: START });
    await bus.emit('payment.captured', {}, { at: '1h' });
    await bus.drain();
    bus.clock.advance('59m');
    expect(await bus.drain()).toMatchObject({ delivered: 0 });
    bus.clock.advance('1m');
    expect(await bus.drain()).toMatchObject({ delivered: 1, errors: [] });
    bus.clock.advance('119m');
    expect(await bus.drain()).toMatchObject({ delivered: 0 });
    bus.clock.advance('1m');
    expect(await bus.drain()).toMatchObject({ delivered: 1, errors: [] });
    expect(bus.received('ledger').map(({ event }) => [event.topic, event.createdAt])).toEqual([
      ['payment.captured', new Date(START_MS + HOUR)],
      ['payment.refunded', new Date(START_MS + 3 * HOUR)],
    ]);
  });

  test('that fails is called again a minute later, not sooner', async ({ open }) => {
    let isDown = true;
    const bus = await open([ledger(() => isDown && fail())], { now: START });
    await bus.emit('payment.captured');
    const [retryAt] = [new Date(START_MS + 60_000)];
    expect(await bus.drain()).toMatchObject({
      failed: 1,
      errors: [new Error('the ledger is down')],
      nextRetryAt: retryAt,
    });
    isDown = false;
    bus.clock.advance('59s');
    expect(await bus.drain()).toMatchObject({ delivered: 0, failed: 0, nextRetryAt: retryAt });
    bus.clock.advance('1s');
    expect(await bus.drain()).toMatchObject({ delivered: 1, nextRetryAt: null });
    expect(bus.received('ledger').map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, 'failed'],
      [2, 'delivered'],
    ]);
  });

  test('that keeps failing leaves a dead letter after its last attempt, and a replay begins anew', async ({
    open,
  }) => {
    let isDown = true;
    const bus = await open([ledger(() => isDown && fail())]);
    await bus.emit('payment.captured');
    let drained = await bus.drain();
    while (drained.nextRetryAt) {
      bus.clock.advanceTo(drained.nextRetryAt);
      drained = await bus.drain();
    }
    expect(drained).toMatchObject({ failed: 0, deadLettered: 1 });
    expect(bus.received('ledger').map(({ outcome }) => outcome)).toEqual([
      'failed',
      'failed',
      'failed',
      'failed',
      'dead_lettered',
    ]);
    expect(await bus.deadLetters()).toEqual([bus.received('ledger').at(-1)]);
    isDown = false;
    await bus.replay('payment.captured');
    expect(await bus.drain()).toMatchObject({ delivered: 1 });
    expect(bus.received('ledger').at(-1)).toMatchObject({ attempt: 1, replayed: true });
    expect(await bus.deadLetters()).toEqual([]);
  });

  test('that throws PermanentError leaves a dead letter at once', async ({ open }) => {
    const bus = await open([ledger(refuse)]);
    await bus.emit('payment.captured');
    expect(await bus.drain()).toMatchObject({
      deadLettered: 1,
      errors: [new PermanentError('refused')],
      nextRetryAt: null,
    });
    expect(await bus.deadLetters()).toMatchObject([
      { subscriber: 'ledger', attempt: 1, outcome: 'dead_lettered' },
    ]);
  });

  test('that throws RetryAfter waits that long and uses up no attempt', async ({ open }) => {
    let isBusy = true;
    const bus = await open([
      ledger(() => {
        if (isBusy) throw new RetryAfter(90_000);
      }),
    ]);
    await bus.emit('payment.captured');
    expect(await bus.drain()).toMatchObject({ waited: 1, failed: 0 });
    isBusy = false;
    bus.clock.advance('89s');
    expect(await bus.drain()).toMatchObject({ delivered: 0 });
    bus.clock.advance(1000);
    expect(await bus.drain()).toMatchObject({ delivered: 1 });
    expect(bus.received('ledger').map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, 'waited'],
      [1, 'delivered'],
    ]);
  });

  test('that overruns its own time limit has failed', async ({ open }) => {
    const bus = await open([
      ledger(
        (_, { signal }) =>
          new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
        { timeoutMs: 20 },
      ),
    ]);
    await bus.emit('payment.captured');
    expect(await bus.drain()).toMatchObject({ failed: 1, errors: [{ code: 'timeout' }] });
  });

  test('is not taken for stuck where the whole process stood still', async ({ onTestFinished }) => {
    const overruns = ledger(
      (_, { signal }) => {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_200);
        return new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason)),
        );
      },
      { timeoutMs: 20 },
    );
    const bus = await testBus([overruns], { stuckAfterMs: 1_000 });
    onTestFinished(() => bus.close());
    await bus.emit('payment.captured');
    expect(await bus.drain()).toMatchObject({ failed: 1, errors: [{ code: 'timeout' }] });
  });

  test('is handed one ordering key while another key waits for its retry', async ({ open }) => {
    const bus = await open([ledger((amount) => amount === 1 && fail())]);
    await bus.emit('payment.captured', { amountMinor: 1 }, { orderingKey: 'a' });
    await bus.emit('payment.captured', { amountMinor: 2 }, { orderingKey: 'a' });
    await bus.emit('payment.captured', { amountMinor: 3 }, { orderingKey: 'b' });
    expect(await bus.drain()).toMatchObject({ failed: 1, delivered: 1 });
    expect(
      bus
        .received('ledger', 'payment.captured')
        .map(({ event, outcome }) => [event.payload.amountMinor, outcome])
        .toSorted(),
    ).toEqual([
      [1, 'failed'],
      [3, 'delivered'],
    ]);
  });

  test('of batches is handed the events together, and what it did not take does not count', async ({
    open,
  }) => {
    const sizes: number[] = [];
    const batches = subscriber(
      'ledger',
      {
        'payment.captured': ({ length }) => {
          sizes.push(length);
          return Math.min(length, 2);
        },
      },
      { batch: true },
    );
    const bus = await open([batches]);
    for (const amountMinor of [1, 2, 3, 4]) await bus.emit('payment.captured', { amountMinor });
    expect(await bus.drain()).toMatchObject({ delivered: 2, failed: 1, errors: [{ code: 'not_taken' }] });
    expect(bus.received('ledger').map(({ outcome }) => outcome)).toEqual([
      'delivered',
      'delivered',
      'failed',
      'not_counted',
    ]);
    bus.clock.advance('1m');
    expect(await bus.drain()).toMatchObject({ delivered: 2 });
    expect(sizes).toEqual([4, 2]);
  });

  test('that fails in a shared transaction shows which of its calls were rolled back', async ({ open }) => {
    const sharing = subscriber(
      'ledger',
      { 'payment.captured': ({ payload }) => (payload.amountMinor === 2 ? fail() : undefined) },
      { transactional: true },
    );
    const bus = await open([sharing]);
    for (const amountMinor of [1, 2, 3]) await bus.emit('payment.captured', { amountMinor });
    expect(await bus.drain()).toMatchObject({
      delivered: 1,
      failed: 1,
      errors: [new Error('the ledger is down')],
    });
    expect(
      bus
        .received('ledger', 'payment.captured')
        .map(({ event, outcome }) => [event.payload.amountMinor, outcome]),
    ).toEqual([
      [1, 'not_counted'],
      [2, 'not_counted'],
      [1, 'delivered'],
      [2, 'failed'],
    ]);
  });
});

describe('the options of a handler on a test bus', () => {
  const halting = () =>
    ledger((amount) => amount === 1 && refuse(), { afterDeadLetter: 'halt', onReplay: 'refuse' });
  const amountsOf = (bus: TestBus) =>
    bus.received('ledger', 'payment.captured').map(({ event }) => event.payload.amountMinor);

  test("a dead letter halts the lane with afterDeadLetter: 'halt', until it is dismissed", async ({
    open,
  }) => {
    const bus = await open([halting()]);
    for (const amountMinor of [1, 2, 3]) await bus.emit('payment.captured', { amountMinor });
    expect(await bus.drain()).toMatchObject({ deadLettered: 1, delivered: 0 });
    expect(amountsOf(bus)).toEqual([1]);
    expect(await bus.dismiss('payment.captured')).toBe(1);
    expect(await bus.drain()).toMatchObject({ delivered: 2 });
    expect(amountsOf(bus)).toEqual([1, 2, 3]);
    expect(await bus.deadLetters()).toEqual([]);
  });

  test("a dead letter halts only its key with afterDeadLetter: 'halt'", async ({ open }) => {
    const bus = await open([halting()]);
    for (const [amountMinor, orderingKey] of [
      [1, 'a'],
      [2, 'a'],
      [3, 'b'],
    ] as const) {
      await bus.emit('payment.captured', { amountMinor }, { orderingKey });
    }
    expect(await bus.drain()).toMatchObject({ deadLettered: 1, delivered: 1 });
    expect(amountsOf(bus).toSorted()).toEqual([1, 3]);
  });

  test("a replay is refused, or leaves the handler out, with onReplay: 'refuse'", async ({ open }) => {
    const bus = await open([halting()]);
    await bus.emit('payment.captured', { amountMinor: 1 });
    await bus.drain();
    await expect(bus.replay('payment.captured')).rejects.toThrow('its handler refuses them');
    await bus.replay('payment.captured', { include: 'all' });
    await bus.drain();
    expect(bus.received('ledger')).toHaveLength(1);
    expect(bus.received('bookings').map(({ replayed }) => replayed)).toEqual([false, true]);
  });

  test("an outage makes deliveries wait without using up attempts with outage: 'wait'", async ({ open }) => {
    const away = Object.assign(new Error('nobody is there'), { code: 'unreachable' });
    let isAway = true;
    const waiting = ledger(
      () => {
        if (isAway) throw away;
      },
      { outage: 'wait' },
    );
    const bus = await open([waiting]);
    for (const orderingKey of ['a', 'b', 'c', 'd']) await bus.emit('payment.captured', {}, { orderingKey });
    for (let passes = 0; passes < 12; passes += 1) {
      await bus.drain();
      bus.clock.advance('6h');
    }
    expect(await bus.deadLetters()).toEqual([]);
    isAway = false;
    await bus.drain();
    expect(
      new Set(
        bus
          .received('ledger')
          .filter(({ outcome }) => outcome === 'delivered')
          .map(({ event }) => event.orderingKey),
      ),
    ).toEqual(new Set(['a', 'b', 'c', 'd']));
  });
});

describe('a test bus', () => {
  test('records what a handler emits, and to whom, without running the others', async ({ open }) => {
    const payments = subscriber(
      'payments',
      {
        'webhook.cardpayments.received': async (event, { tx }) =>
          void (await emit(
            tx,
            'payment.captured',
            {
              intentId: 'pi_1',
              bookingId: 'bkg_1',
              provider: 'cardpayments',
              amountMinor: 5,
              currency: 'NOK',
              providerEventId: event.payload.eventId,
            },
            { causationId: event.id },
          )),
      },
      { transactional: true },
    );
    const bus = await open([payments]);
    const { id } = await bus.emit('webhook.cardpayments.received');
    expect(await bus.drain()).toMatchObject({ delivered: 1 });
    const [captured, ...others] = await bus.events('payment.captured');
    expect(others).toEqual([]);
    expect(captured).toMatchObject({ causationId: id, payload: { amountMinor: 5 } });
    for (const name of ['accounting', 'bookings', 'ledger', 'notifications'] as const) {
      expect(bus.received(name)).toMatchObject([{ event: { id: captured!.id }, outcome: 'delivered' }]);
    }
    expect((await bus.events()).map(({ topic }) => topic)).toEqual([
      'webhook.cardpayments.received',
      'payment.captured',
    ]);
  });

  test('lets a topic wait for which a given subscriber has no handler', async ({ open }) => {
    const bus = await open([ledger()]);
    await bus.emit('payment.refunded');
    expect(await bus.drain()).toMatchObject({ delivered: 0, deadLettered: 0 });
    expect(bus.received('ledger')).toEqual([]);
    expect(bus.received('bookings')).toHaveLength(1);
    expect(await statesOf(bus.db, 'ledger')).toEqual(['pending']);
  });

  test('lists an event with every field that a handler is handed', async ({ open }) => {
    const bus = await open([]);
    await bus.emit('payment.captured', {}, { causationId: 'case 12' });
    await bus.drain();
    expect(await bus.events()).toEqual([bus.received('ledger')[0]!.event]);
  });

  test('leaves out a field of the example that is given as undefined', async ({ open }) => {
    const bus = await open([]);
    await bus.emit('user.signed_up', { email: undefined });
    expect((await bus.events('user.signed_up'))[0]!.payload).not.toHaveProperty('email');
  });

  test("moves the database's clock, also for defaults and for what a handler writes", async ({ open }) => {
    const bus = await open([], { now: START });
    await bus.db.execute(sql`create table notes (at timestamptz default now())`);
    const times = async () => {
      const [row] = await rows<{ at: Date }>(bus.db, 'insert into notes default values returning at');
      return row!.at.getTime();
    };
    expect(await times()).toBe(START_MS);
    bus.clock.advance('7d');
    expect(await times()).toBe(START_MS + 7 * 86_400_000);
    bus.clock.advanceTo('2032-01-01T00:00:00Z');
    expect(await times()).toBe(Date.parse('2032-01-01T00:00:00Z'));
    await bus.emit('payment.captured');
    expect((await bus.events())[0]!.createdAt).toEqual(bus.clock.now());
  });

  test('hands the next test an empty database with the tables as they were', async ({ open }) => {
    const bus = await open([ledger(refuse)]);
    await bus.db.execute(sql`create table entries (id int)`);
    await bus.db.execute(sql`create view two as select * from entries`);
    await bus.emit('payment.captured');
    await bus.drain();
    const { db } = bus;
    await bus.close();
    const next = await open([]);
    expect(next.db).toBe(db);
    expect(await rows(next.db, `select to_regclass('entries') as entries`)).toEqual([{ entries: null }]);
    expect([await next.events(), await next.deadLetters()]).toEqual([[], []]);
    expect(await rows(next.db, 'select from last_pass')).toHaveLength(1);
  });
});

describe('a component elsewhere on a test bus', () => {
  const secret = `whsec_${'A'.repeat(43)}=`;
  const database = new PGlite();
  beforeAll(async () => void (await database.exec(RECEIVED_TABLE)));
  afterAll(() => database.close());

  test.for([false, true])(
    'is handed its events through its receiver, again after a refusal, with batch: %s',
    async (batch, { open }) => {
      const handed: number[] = [];
      let isDown = true;
      const receive = receiver({
        subscriber: 'ledger',
        secrets: secret,
        database,
        handlers: {
          'payment.captured': ({ payload }) => {
            if (isDown && payload.amountMinor === 2) throw new Error('down');
            handed.push(payload.amountMinor);
          },
        },
        onError: () => undefined,
      });
      const bus = await open([elsewhere('ledger', receive, { secret, batch })]);
      for (const amountMinor of [1, 2, 3]) await bus.emit('payment.captured', { amountMinor });
      expect(await bus.drain()).toMatchObject({ delivered: 1, failed: 1 });
      isDown = false;
      bus.clock.advance('1m');
      expect(await bus.drain()).toMatchObject({ delivered: 2, errors: [] });
      expect(handed).toEqual([1, 2, 3]);
    },
  );

  test('is refused by its receiver where the secrets differ', async ({ open }) => {
    const receive = receiver({
      subscriber: 'ledger',
      secrets: `whsec_${'B'.repeat(43)}=`,
      database,
      handlers: { 'payment.captured': () => undefined },
    });
    const bus = await open([elsewhere('ledger', receive, { secret })]);
    await bus.emit('payment.captured');
    const { errors } = await bus.drain();
    expect(errors).toMatchObject([{ code: 'http_401' }]);
  });

  test('is refused by the test bus when the catalog does not have it, or its secret is none', () => {
    const receive = async () => new Response();
    expect(() => elsewhere('ledgr' as 'ledger', receive, { secret })).toThrow(
      new TypeError("Unknown subscriber 'ledgr'. Did you mean 'ledger'?"),
    );
    expect(() => elsewhere('ledger', receive, { secret: 'whsec_short' })).toThrow(
      new TypeError('secret: expected whsec_ and base64, one of the secrets of the receiver'),
    );
  });
});

describe('wrong use of a test bus is refused with what would be right:', () => {
  test.for<[what: string, use: (bus: TestBus) => unknown, error: RegExp]>([
    [
      'an unknown topic',
      (bus) => bus.emit('payment.capture' as 'payment.captured'),
      /unknown topic "payment\.capture": did you mean payment\.captured\?/,
    ],
    [
      'a wrong payload',
      (bus) => bus.emit('payment.captured', { amountMinor: 'x' as unknown as number }),
      /amountMinor/,
    ],
    [
      'an unknown subscriber',
      (bus) => bus.received('ledgr' as 'ledger'),
      /Unknown subscriber 'ledgr'\. Did you mean 'ledger'\?/,
    ],
    [
      "a topic that is not the subscriber's",
      (bus) => bus.received('ledger', 'user.signed_up' as 'payment.captured'),
      /Unknown topic 'user\.signed_up' of ledger\. Known: /,
    ],
    ['a clock that goes back', (bus) => bus.clock.advance(-1), /The clock cannot go back/],
    [
      'an instant in the past',
      (bus) => bus.clock.advanceTo('2001-01-01T00:00:00Z'),
      /The clock cannot go back: it is .*, and 2001-01-01T00:00:00.000Z is before that/,
    ],
    [
      'a span without a unit',
      (bus) => bus.clock.advance('1 minute'),
      /Expected a time span such as '90s', '1m', '6h' or '7d', or milliseconds, not "1 minute"/,
    ],
    [
      'a second drain beside the first',
      (bus) => Promise.all([bus.drain(), bus.drain()]),
      /A drain is under way: await it/,
    ],
    [
      'a replay of an unknown topic',
      (bus) => bus.replay('payment.capture' as 'payment.captured'),
      /payment\.capture/,
    ],
  ])('%s', async ([, use, error], { open }) => {
    const bus = await open([ledger()]);
    await expect((async () => await use(bus))()).rejects.toThrow(error);
    await bus.drain().catch(() => undefined);
  });

  test.for<[what: string, given: unknown, error: RegExp]>([
    ['a subscriber instead of a list', ledger(), /Expected a list of subscribers/],
    ['something else in the list', [{ name: 'ledger' }], /Expected a list of subscribers/],
    ['a subscriber given twice', [ledger(), ledger()], /ledger for payment\.captured is given twice/],
  ])('%s', async ([, given, error]) => {
    await expect(testBus(given as AttachedSubscriber[])).rejects.toThrow(error);
  });

  test('a wrong instant for the clock', async () => {
    await expect(testBus([], { now: 'tomorrow' })).rejects.toThrow(
      /Expected an instant such as .* not "tomorrow"/,
    );
  });

  test('a closed bus', async ({ open }) => {
    const bus = await open([]);
    await bus.close();
    await bus.close();
    await expect(bus.drain()).rejects.toThrow('The bus is closed: drain before close().');
    await expect(bus.emit('payment.captured')).rejects.toThrow('The bus is closed: emit before close().');
    expect(() => bus.db).toThrow('The bus is closed');
    expect(() => bus.clock.advance('1m')).toThrow('The bus is closed');
  });

  test('fake timers', async ({ open }) => {
    const bus = await open([ledger()]);
    vi.useFakeTimers();
    await expect(bus.drain()).rejects.toThrow("vi.useFakeTimers({ toFake: ['Date'] })");
    vi.useFakeTimers({ toFake: ['Date'] });
    await bus.emit('payment.captured');
    expect(await bus.drain()).toMatchObject({ delivered: 1 });
    vi.useRealTimers();
  });
});

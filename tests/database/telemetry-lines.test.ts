import { describe, expect, vi } from 'vitest';

import { emit } from '../../lib/bus/outbox/emit.ts';
import { createKick } from '../../lib/bus/relay/kick.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach, subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { runCron } from '../../lib/edge/cron/run-cron.ts';
import { guardedEndpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, drain, emitPayments, payloadOf, payment, rows, storeBacklog } from '../support/bus.ts';
import { holdLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { ledger, refuse } from '../support/ledger.ts';

const exporter = vi.hoisted(() => ({ isLoaded: false }));
vi.mock('../../lib/platform/telemetry/export.ts', () => {
  exporter.isLoaded = true;
  return { exportTraces: () => () => undefined };
});
const CANARY = 'kanarifugl@example.no';
const CALLER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const TRACE = CALLER.slice(3, 35);
const fails = (error: () => unknown) =>
  ledger(() => {
    throw error();
  });

describe('a delivery', () => {
  test('leaves one line, which names it and holds nothing of its payload', async ({ bus, output }) => {
    const event = payloadOf('payment.captured', { bookingId: CANARY });
    const { id } = await bus.db.transaction((tx) =>
      emit(tx, 'payment.captured', event, { orderingKey: CANARY, dedupeKey: CANARY, correlationId: CANARY }),
    );
    await drain(bus.db, [ledger()], { isLogged: true });
    expect(output.linesOf('delivery')).toEqual([
      {
        level: 'info',
        at: expect.stringMatching(/^\d{4}-.*Z$/),
        message: 'delivery',
        topic: 'payment.captured',
        subscriber: 'ledger',
        eventId: id,
        deliveryId: `${id}.ledger`,
        attempt: 1,
        outcome: 'delivered',
        durationMs: expect.any(Number),
      },
    ]);
    expect(output.text()).not.toContain('kanari');
  });

  test.for<[outcome: string, level: string, kind: string, error: () => unknown]>([
    ['failed', 'warn', 'TypeError', () => new TypeError(CANARY)],
    ['failed', 'warn', 'other', () => Object.assign(new Error(CANARY), { code: `no booking for ${CANARY}` })],
    ['failed', 'warn', 'thrown', () => CANARY],
    ['dead_lettered', 'error', 'permanent', () => new PermanentError(CANARY)],
    ['waited', 'info', 'retry_after', () => new RetryAfter(MINUTE, CANARY)],
  ])(
    'that %s is logged as %s, with the kind of its error: %s',
    async ([outcome, level, kind, error], { bus, output }) => {
      await emitPayments(bus.db, 1, 1);
      await drain(bus.db, [fails(error)], { isLogged: true });
      expect(output.linesOf('delivery')).toMatchObject([{ level, outcome, kind, attempt: 1 }]);
      expect(output.text()).not.toContain('kanari');
    },
  );

  test('of a transactional handler is logged as well', async ({ bus, output }) => {
    await emitPayments(bus.db, 1, 2);
    const own = subscriber('ledger', { 'payment.captured': () => undefined }, { transactional: true });
    await drain(bus.db, [own], { isLogged: true });
    expect(output.linesOf('delivery').map(({ outcome }) => outcome)).toEqual(['delivered', 'delivered']);
  });

  test('that is rolled back with a neighbour is logged when it is run again, and not before', async ({
    bus,
    output,
  }) => {
    await emitPayments(bus.db, 1, 3);
    const own = subscriber(
      'ledger',
      {
        'payment.captured': ({ payload }) => {
          if (payload.amountMinor === 2) throw new TypeError('as planned');
        },
      },
      { transactional: true },
    );
    await drain(bus.db, [own], { isLogged: true });
    expect(output.linesOf('delivery').map(({ outcome }) => outcome)).toEqual(['delivered', 'failed']);
  });

  test('of a batch leaves a line if the batch was taken that far', async ({ bus, output }) => {
    await emitPayments(bus.db, 1, 4);
    const own = subscriber('ledger', { 'payment.captured': () => 2 }, { batch: true });
    await drain(bus.db, [own], { isLogged: true });
    expect(output.linesOf('delivery')).toMatchObject([
      { outcome: 'delivered' },
      { outcome: 'delivered' },
      { outcome: 'failed', kind: 'not_taken' },
    ]);
  });

  test('whose relay died is logged as failed by the next relay', async ({ bus, output }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    await holdLanes(bus.db, { subscriber: 'ledger', until: new Date(START - SECOND) });
    await drain(bus.db, [ledger()], { isLogged: true });
    expect(output.linesOf('delivery')).toMatchObject([
      { level: 'warn', outcome: 'failed', kind: 'lease_expired' },
    ]);
  });

  test('is written together with the others of its batch', async ({ bus, output }) => {
    await storeBacklog(bus.db, 'payment.captured', 3000);
    await drain(bus.db, [ledger()], { isLogged: true });
    expect(output.linesOf('delivery').length).toBe(3000);
    expect(new Set(output.linesOf('delivery').map(({ deliveryId }) => deliveryId)).size).toBe(3000);
    expect(output.writes.length).toBeLessThan(20);
  });

  test('leaves no line unless logging was asked for', async ({ bus, output }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [fails(() => new Error())]);
    expect(output.writes).toEqual([]);
  });
});

describe('a relay', () => {
  test('leaves a line that counts what it did', async ({ bus, output }) => {
    await emitPayments(bus.db, 1, 2);
    const first = await drain(bus.db, [ledger(), attach('bookings', { 'payment.captured': refuse })], {
      isLogged: true,
    });
    expect(output.linesOf('relay')).toEqual([
      {
        level: 'info',
        at: expect.any(String),
        message: 'relay',
        placed: 2,
        delivered: 2,
        failed: 0,
        waited: 0,
        deadLettered: 2,
        leasesLost: 0,
        durationMs: expect.any(Number),
      },
    ]);
    expect(first).toMatchObject({ delivered: 2, deadLettered: 2 });
  });

  test('is logged when the cron or a kick runs it, if logging was asked for', async ({ bus, output }) => {
    await emitPayments(bus.db, 1, 1);
    await runCron({ db: bus.db, subscribers: [ledger()], duties: [], budgetMs: 300, isLogged: true });
    expect([output.linesOf('delivery').length, output.linesOf('relay').length]).toEqual([1, 1]);
    for (const isLogged of [true, false]) {
      output.writes.length = 0;
      await emitPayments(bus.db, 1, 1);
      const work: Promise<void>[] = [];
      const waitUntil = (running: Promise<void>) => void work.push(running);
      createKick({ db: bus.db, subscribers: [ledger()], waitUntil, onError: () => undefined, isLogged })();
      await Promise.all(work);
      expect(output.linesOf('delivery').length).toBe(isLogged ? 1 : 0);
    }
  });
});

describe('without a trace exporter', () => {
  const received = (bus: Bus) =>
    guardedEndpoint({
      methods: ['POST'],
      handle: async () => {
        await bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(1)));
        return new Response();
      },
    });
  const post = (traceparent?: string) =>
    new Request('https://postbud.example/', { method: 'POST', headers: traceparent ? { traceparent } : {} });
  const traces = async (bus: Bus) =>
    (
      await rows<{ traceparent: string | null }>(
        bus.db,
        'select traceparent from events order by created_at, seq',
      )
    ).map(({ traceparent }) => traceparent);

  test('the caller’s trace is still that of the event, and of what its handlers emit', async ({
    bus,
    output,
  }) => {
    await received(bus).fetch(post(CALLER));
    const causing = subscriber(
      'ledger',
      {
        'payment.captured': async (_, { tx }) =>
          void (await emit(tx, 'payment.refunded', payloadOf('payment.refunded'))),
      },
      { transactional: true },
    );
    await drain(bus.db, [causing], { isLogged: true });
    expect(await traces(bus)).toEqual([CALLER, CALLER]);
    expect(output.lines().map(({ message, traceId }) => [message, traceId])).toEqual([
      ['request', TRACE],
      ['delivery', TRACE],
      ['relay', undefined],
    ]);
  });

  test('a relay that a request kicked does not hand the request’s trace to the events of others', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1);
    const causing = ledger(() =>
      bus.db.transaction((tx) => emit(tx, 'payment.refunded', payloadOf('payment.refunded'))),
    );
    const { fetch } = guardedEndpoint({
      methods: ['POST'],
      handle: async () => {
        await drain(bus.db, [causing]);
        return new Response();
      },
    });
    await fetch(post(CALLER));
    expect(await traces(bus)).toEqual([null, null]);
  });

  test.for([undefined, '', 'kanari', CALLER.slice(0, -1), CALLER.replace('0af7', 'zzzz'), `${CALLER}-00`])(
    'the invalid traceparent %j is ignored',
    async (traceparent, { bus }) => {
      await received(bus).fetch(post(traceparent));
      expect(await traces(bus)).toEqual([null]);
    },
  );

  test('nothing of the SDK is loaded', async ({ bus }) => {
    await received(bus).fetch(post(CALLER));
    await drain(bus.db, [ledger()]);
    expect(exporter.isLoaded).toBe(false);
  });
});

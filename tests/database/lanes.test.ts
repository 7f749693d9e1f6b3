import { getEventListeners } from 'node:events';
import { setImmediate } from 'node:timers/promises';

import fc from 'fast-check';
import { describe, expect, vi } from 'vitest';

import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach, subscriber, topicsOf } from '../../lib/bus/subscribers/subscriber.ts';
import type { BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Transaction } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { HOUR, MINUTE, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  contradictions,
  drain,
  emitPayments,
  eventStates,
  gate,
  payloadOf,
  payment,
  placeEvents,
  rows,
  START,
  storeBacklog,
} from '../support/bus.ts';
import { statesOf, RECORDS, dueTimesOf } from '../support/records.ts';
import { relist } from '../support/scenes.ts';

describe('lanes', () => {
  test('do not wait for one another: a slow lane does not delay the settlement of the others', async ({
    bus,
    handed,
    ledger,
  }) => {
    const held = gate();
    await emitPayments(bus.db, 1, 2, { orderingKey: 'slow' });
    await emitPayments(bus.db, 3, 6, { orderingKey: 'quick' });
    const relaying = drain(bus.db, [ledger((number) => (number === 1 ? held.opened : undefined))]);
    await expect
      .poll(() => statesOf(bus.db))
      .toEqual(['delivered', 'delivered', 'delivered', 'delivered', 'pending', 'pending']);
    // Also what comes while the slow one is in hand.
    await emitPayments(bus.db, 7, 7, { orderingKey: 'new' });
    await expect.poll(() => handed).toContain(7);
    await expect
      .poll(() => statesOf(bus.db))
      .toEqual(['delivered', 'delivered', 'delivered', 'delivered', 'delivered', 'pending', 'pending']);
    expect(handed).not.toContain(2);
    held.open();
    expect(await relaying).toMatchObject({ delivered: 7 });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('are released after their time slice, however long the backlog, so that other relays get a turn', async ({
    bus,
    handed,
    ledger,
  }) => {
    let now = performance.now();
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    const until = Date.now() + 600_000;
    let seen: string[] = [];
    await emitPayments(bus.db, 1, 20);
    const slow = ledger(async (number) => {
      now += 1000;
      if (number === 7) {
        // Another relay takes the lane over where this one let it go.
        seen = await statesOf(bus.db);
      }
    });
    expect(await drain(bus.db, [slow], { until })).toMatchObject({ delivered: 20 });
    expect(seen.slice(0, 5)).toEqual(Array(5).fill('delivered'));
    expect(seen.slice(6)).toEqual(Array(14).fill('pending'));
    expect(handed).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
  });

  test('settle a long batch in steps, so that a crash repeats little', async ({ bus, ledger }) => {
    const held = gate();
    await emitPayments(bus.db, 1, 3);
    const relaying = drain(bus.db, [ledger((number) => (number === 3 ? held.opened : undefined))]);
    await expect.poll(() => statesOf(bus.db)).toEqual(['delivered', 'delivered', 'pending']);
    held.open();
    await relaying;
    expect(await statesOf(bus.db)).toEqual(['delivered', 'delivered', 'delivered']);
  });

  test('are settled once where a thousand events for others lie between two deliveries', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await placeEvents(bus.db);
    await emitPayments(bus.db, 2, 1101);
    await relist(bus.db, `array_remove(subscribers, 'ledger')`);
    await placeEvents(bus.db);
    await emitPayments(bus.db, 1102, 1103);
    await drain(bus.db, []);
    expect(await drain(bus.db, [ledger()])).toMatchObject({ delivered: 3 });
    expect(handed).toEqual([1, 1102, 1103]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('are all drained when there are more of them than one claim takes', async ({
    bus,
    handed,
    ledger,
  }) => {
    await storeBacklog(bus.db, 'payment.captured', 900, 300);
    expect(await drain(bus.db, [ledger()])).toMatchObject({ delivered: 900 });
    for (let key = 0; key < 300; key += 1) {
      const lane = handed.filter((number) => number % 300 === key);
      expect(lane).toEqual(lane.toSorted((a, b) => a - b));
    }
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('of other subscriptions are not starved by a subscription with very many lanes', async ({ bus }) => {
    const order: string[] = [];
    const busy = subscriber('ledger', { 'payment.captured': () => void order.push('busy') });
    const quiet = subscriber('audit', { 'payment.failed': () => void order.push('quiet') });
    await storeBacklog(bus.db, 'payment.captured', 12_000, 1000);
    await bus.db.transaction((tx) => emit(tx, 'payment.failed', payloadOf('payment.failed')));
    await drain(bus.db, []);
    await drain(bus.db, [busy, quiet]);
    expect(order).toHaveLength(12_001);
    expect(order.indexOf('quiet')).toBeLessThan(6000);
  });

  test('of two relays are shared between them', async ({ bus }) => {
    const other = await connect(bus.url);
    // More lanes than one relay holds at once, so that it leaves some while it waits for the other to begin.
    const audited = topicsOf('audit').slice(0, 40) as TopicName[];
    for (const topic of audited) await storeBacklog(bus.db, topic, 30, 30);
    await drain(bus.db, []);
    const ids = new Set<string>();
    const begun = [gate(), gate()];
    const bothHaveBegun = Promise.all(begun.map(({ opened }) => opened));
    const reports = await Promise.all(
      [bus.db, other.db].map((db, index) =>
        drain(db, [
          attach(
            'audit',
            Object.fromEntries(
              audited.map((topic) => [
                topic,
                async ({ id }: BusEvent) => {
                  ids.add(id);
                  begun[index]!.open();
                  await bothHaveBegun;
                },
              ]),
            ),
          ),
        ]),
      ),
    );
    await other.close();
    expect(reports.map(({ delivered }) => delivered > 0)).toEqual([true, true]);
    expect(reports[0]!.delivered + reports[1]!.delivered).toBe(1200);
    expect(ids.size).toBe(1200);
    expect(reports.map(({ leasesLost }) => leasesLost)).toEqual([0, 0]);
  });

  test('include events that are emitted while the relay runs', async ({ bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 1);
    const chain = ledger(async (number) => {
      if (number < 5) await emitPayments(bus.db, number + 1, number + 1);
    });
    expect(await drain(bus.db, [chain])).toMatchObject({ delivered: 5 });
    expect(handed).toEqual([1, 2, 3, 4, 5]);
  });

  test('wait for the retry of a delivery that fails in the middle of a batch', async ({
    bus,
    handed,
    ledger,
  }) => {
    const attached = [
      ledger((number) => {
        if (number === 3 && handed.length === 3) throw new Error('once');
      }),
    ];
    await emitPayments(bus.db, 1, 5);
    expect(await drain(bus.db, attached)).toMatchObject({
      delivered: 2,
      failed: 1,
      nextRetryAt: START + MINUTE,
    });
    expect(await statesOf(bus.db)).toEqual(['delivered', 'delivered', 'failing', 'pending', 'pending']);
    expect(await eventStates(bus.db)).toEqual(['pending', 'pending', 'failing', 'pending', 'pending']);
    expect(await drain(bus.db, attached, { now: START + MINUTE })).toMatchObject({ delivered: 3 });
    expect(handed).toEqual([1, 2, 3, 3, 4, 5]);
  });
});

describe('the signal of a relay', () => {
  test('has one listener, however many handlers, transactions and pauses listen to it', async ({ bus }) => {
    const stop = new AbortController();
    const { signal } = stop;
    const counts = new Set<number>();
    const count = () => counts.add(getEventListeners(signal, 'abort').length);
    const warned = vi.fn<(warning: Error) => void>();
    process.on('warning', warned);
    const slow = async () => {
      await setImmediate();
      count();
    };
    const down = async () => {
      await slow();
      throw new Error('nobody is there');
    };
    const attached = [
      subscriber('ledger', { 'payment.captured': slow }),
      subscriber('bookings', { 'payment.captured': slow }, { transactional: true }),
      ...(['accounting', 'notifications'] as const).map((name) =>
        subscriber(name, { 'payment.captured': down }),
      ),
    ];
    await storeBacklog(bus.db, 'payment.captured', 600, 100);
    expect(await drain(bus.db, attached, { signal })).toMatchObject({ delivered: 1200, failed: 200 });
    for (let pauses = 0; pauses < 20; pauses += 1) {
      const slept = Array.from({ length: 50 }, () => sleep(1, signal));
      count();
      await Promise.all(slept);
    }
    process.off('warning', warned);
    expect([...counts]).toEqual([1]);
    expect(warned).not.toHaveBeenCalled();
  });
});

describe('generated outcomes in any lanes', () => {
  type Handed = { readonly payload: { readonly amountMinor: number }; readonly orderingKey: string };
  /** Each once, in the order in which they came for the last time. */
  const ofEach = (log: readonly number[]) => [...new Set(log.toReversed())].toReversed();
  type Outcome = 'ok' | 'fails' | 'never' | 'waits' | 'string';
  const outcome = fc.oneof(
    { weight: 4, arbitrary: fc.constant<Outcome>('ok') },
    { weight: 4, arbitrary: fc.constantFrom<Outcome>('fails', 'string') },
    { weight: 1, arbitrary: fc.constantFrom<Outcome>('never', 'waits') },
  );
  /** What becomes of each delivery at each of its attempts; when the list is over, it works. */
  const fates = fc.array(fc.array(outcome, { maxLength: 8 }), { minLength: 1, maxLength: 5 });
  const names = ['bookings', 'ledger', 'notifications'] as const;
  const scenario = fc.record({
    /** By subscriber, then event. */
    fates: fc.tuple(fates, fates, fates),
    keys: fc.array(fc.constantFrom('', 'a', 'b'), { minLength: 1, maxLength: 5 }),
    transactional: fc.boolean(),
  });

  /** What one delivery goes through by the rules: how often it is handed over, and what it ends as. */
  function model(fate: readonly Outcome[]) {
    let failures = 0;
    for (const [index, what] of fate.entries()) {
      if (what === 'ok') return { turns: index + 1, state: 'delivered', attempts: failures + 1 };
      if (what === 'never') return { turns: index + 1, state: 'dead_lettered', attempts: failures + 1 };
      if (what !== 'waits') failures += 1;
      if (failures === 5) return { turns: index + 1, state: 'dead_lettered', attempts: 5 };
    }
    return { turns: fate.length + 1, state: 'delivered', attempts: failures + 1 };
  }

  test('keep each lane in order, end as the rules say, and keep every counter exact at every moment', async ({
    bus,
  }) => {
    await fc.assert(
      fc.asyncProperty(scenario, async ({ fates: bySubscriber, keys, transactional }) => {
        await bus.reset();
        const fateOf = (name: number, event: number) => bySubscriber[name]![event - 1] ?? [];
        const turns = new Map<string, number>();
        const log = new Map<string, number[]>();
        const attached = names.map((name, index) => {
          const handle = ({ payload, orderingKey }: Handed, turn: number) => {
            const number = payload.amountMinor;
            const lane = `${name} ${orderingKey}`;
            log.set(lane, [...(log.get(lane) ?? []), number]);
            turns.set(`${name} ${number}`, turn + 1);
            const what = fateOf(index, number)[turn] ?? 'ok';
            if (what === 'fails') throw new Error(`turn ${turn}`);
            // eslint-disable-next-line @typescript-eslint/only-throw-error
            if (what === 'string') throw 'text';
            if (what === 'never') throw new PermanentError('never');
            if (what === 'waits') throw new RetryAfter(HOUR);
          };
          if (!transactional) {
            const once = (event: Handed) =>
              handle(event, turns.get(`${name} ${event.payload.amountMinor}`) ?? 0);
            return subscriber(name, { 'payment.captured': once });
          }
          // What was rolled back with a neighbour was no turn: those that were are in the delivery's log.
          const again = async (event: Handed & { id: string }, { tx }: { tx: Transaction }) => {
            const [entries] = await run<{ count: number }>(tx, {
              text: `select coalesce(max(jsonb_array_length(attempt_log)), 0)::int as count from ${RECORDS}
                where event_id = $1::uuid and subscriber = $2`,
              values: [event.id, name],
            });
            const { count } = entries!;
            handle(event, count);
          };
          return subscriber(name, { 'payment.captured': again }, { transactional });
        });
        await bus.db.transaction(async (tx) => {
          for (const [index, orderingKey] of keys.entries()) {
            await emit(tx, 'payment.captured', payment(index + 1), { orderingKey });
          }
        });

        let now = START;
        for (let pass = 0; pass < 60; pass += 1) {
          const { nextRetryAt } = await drain(bus.db, attached, { now });
          expect(await contradictions(bus.db)).toEqual([]);
          const all = await Promise.all(names.map((name) => dueTimesOf(bus.db, name)));
          const due = all.flat();
          const next = Math.min(...due.map(({ at }) => at));
          if (nextRetryAt !== null) expect(next).toBeLessThanOrEqual(nextRetryAt);
          if (due.length === 0) break;
          expect(next).toBeGreaterThan(now);
          now = next;
        }

        for (const [index, name] of names.entries()) {
          const stored = await rows<{
            number: number;
            state: string;
            attempts: number;
            key: string;
            log: number;
          }>(
            bus.db,
            `select (payload ->> 'amountMinor')::int as number, record.state::text, attempts, record.ordering_key as key,
               coalesce(jsonb_array_length(attempt_log), 0) as log
             from ${RECORDS} join events on events.id = event_id
             where subscriber = $1 order by number`,
            [name],
          );
          expect(stored).toHaveLength(keys.length);
          for (const { number, state, attempts, log: entries } of stored) {
            const expected = model(fateOf(index, number));
            expect({ state, attempts, turns: turns.get(`${name} ${number}`) }).toEqual(expected);
            expect(attempts).toBeLessThanOrEqual(5);
            expect(entries).toBe(expected.turns - (state === 'delivered' ? 1 : 0));
          }
          for (const key of new Set(keys)) {
            const expected = keys.flatMap((own, event) =>
              own === key ? Array<number>(model(fateOf(index, event + 1)).turns).fill(event + 1) : [],
            );
            // In groups a turn may come again.
            const seen = log.get(`${name} ${key}`)!;
            if (transactional) expect(ofEach(seen)).toEqual(ofEach(expected));
            else expect(seen).toEqual(expected);
          }
        }
      }),
      { numRuns: 25 },
    );
  });
});

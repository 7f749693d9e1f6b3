import { afterAll, describe, expect } from 'vitest';

import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { probeHead } from '../../lib/bus/deliveries/operations/probe-head.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import type { NotActedOn } from '../../lib/bus/deliveries/refusals.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attachBatches } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Database } from '../../lib/platform/db/connect.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, gate, rows } from '../support/bus.ts';
import { deliveriesOf, deliveryIdsOf } from '../support/records.ts';
import { holdLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';

const by = 'kari';
const PROBED_AT = START + SECOND;

/** Lets a delivery fail, with two others behind it. @returns its id. */
async function held(bus: Bus, orderingKey?: string): Promise<string> {
  await emitPayments(bus.db, 1, 3, orderingKey === undefined ? {} : { orderingKey });
  await drain(bus.db, [ledger(fail)]);
  const [first] = await deliveryIdsOf(bus.db);
  return first!;
}

const probe = async (db: Database, deliveryId: string, now = PROBED_AT) =>
  await probeHead(db, { deliveryId, by, reason: 'is it back?', now: new Date(now) });

const codeOf = (acting: Promise<unknown>) =>
  acting.then(
    () => 'done',
    (error: NotActedOn) => error.code,
  );

describe('a probe of the delivery that holds a lane', () => {
  test.for(['', 'booking 1'])(
    'hands it over once, and its lane %o goes on when it is delivered',
    async (key, { bus }) => {
      const first = await held(bus, key === '' ? undefined : key);
      expect(await probe(bus.db, first)).toEqual({
        deliveryId: first,
        topic: 'payment.captured',
        subscriber: 'ledger',
      });
      const handed: number[] = [];
      await drain(bus.db, [ledger((number) => handed.push(number))], { now: PROBED_AT });
      expect(handed).toEqual([1, 2, 3]);
      expect(
        await rows(bus.db, 'select operator, action, delivery_id, reason from operator_actions'),
      ).toEqual([{ operator: by, action: 'probe', delivery_id: first, reason: 'is it back?' }]);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test.for([
    ['fails', fail],
    ['is rejected', refuse],
  ] as const)(
    'that %s leaves its attempts and the time of its next one as they were',
    async ([, handle], { bus }) => {
      const first = await held(bus);
      await probe(bus.db, first);
      await drain(bus.db, [ledger(handle)], { now: PROBED_AT });
      const [delivery, ...behind] = await deliveriesOf(bus.db, 'ledger');
      expect(delivery).toMatchObject({ state: 'failing', attempts: 1, nextAttemptAt: START + MINUTE });
      expect(delivery!.log?.map(({ outcome }) => outcome)).toEqual(['failed', 'probed', 'waited']);
      expect(behind).toMatchObject([{ attempts: 0 }, { attempts: 0 }]);
      // The attempt that it waits for costs what it would have.
      await drain(bus.db, [ledger(fail)], { now: START + MINUTE });
      expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({
        attempts: 2,
        nextAttemptAt: START + 6 * MINUTE,
      });
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('makes no dead letter of one whose last attempt is still to come', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    const twice = ledger(fail, { maxAttempts: 2 });
    await drain(bus.db, [twice]);
    const [first] = await deliveryIdsOf(bus.db);
    await probe(bus.db, first!);
    await drain(bus.db, [twice], { now: PROBED_AT });
    expect(await deliveriesOf(bus.db, 'ledger')).toMatchObject([{ state: 'failing', attempts: 1 }]);
    await drain(bus.db, [twice], { now: START + MINUTE });
    expect(await deliveriesOf(bus.db, 'ledger')).toMatchObject([{ state: 'dead_lettered', attempts: 2 }]);
  });

  test('waits as long as the handler asks', async ({ bus }) => {
    const first = await held(bus);
    await probe(bus.db, first);
    const asks = ledger(() => {
      throw new RetryAfter(10 * MINUTE);
    });
    await drain(bus.db, [asks], { now: PROBED_AT });
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({
      attempts: 1,
      nextAttemptAt: PROBED_AT + 10 * MINUTE,
    });
  });

  test('goes alone to a handler that takes batches', async ({ bus }) => {
    const sizes: number[] = [];
    const batches = attachBatches('ledger', {
      'payment.captured': (events) => {
        sizes.push(events.length);
        throw new Error('down');
      },
    });
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [batches]);
    const [first] = await deliveryIdsOf(bus.db);
    await probe(bus.db, first!);
    await drain(bus.db, [batches], { now: PROBED_AT });
    expect(sizes).toEqual([3, 1]);
    expect((await deliveriesOf(bus.db, 'ledger')).map(({ attempts }) => attempts)).toEqual([1, 0, 0]);
  });

  test('is refused twice, while the subscriber is paused, and of what does not hold its lane', async ({
    bus,
  }) => {
    const first = await held(bus);
    const [, second] = await deliveryIdsOf(bus.db);
    expect(await codeOf(probe(bus.db, second!))).toBe('not_first');
    expect(await codeOf(probe(bus.db, first))).toBe('done');
    expect(await codeOf(probe(bus.db, first))).toBe('not_waiting');
    await drain(bus.db, [ledger(fail)], { now: PROBED_AT });
    await pause(bus.db, { subscriber: 'ledger', topic: null }, by, 'moving');
    expect(await codeOf(probe(bus.db, first))).toBe('paused');
    expect(await codeOf(probe(bus.db, '999999-1'))).toBe('not_found');
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({ nextAttemptAt: START + MINUTE });
  });

  test('is refused in an outage, whose own probe costs nothing', async ({ bus }) => {
    const first = await held(bus);
    await rows(
      bus.db,
      `insert into outages (subscriber, kind, message, opened_at, next_probe_at)
       values ('ledger', 'unreachable', '', now(), now())`,
    );
    await expect(probe(bus.db, first)).rejects.toThrow(/does not answer.*Probe ledger instead\./);
  });
});

describe('on two connections', () => {
  let other: Connection;
  test.beforeAll(async ({ database }) => {
    other = await connect(database.url);
  });
  afterAll(async () => {
    await other.close();
  });

  test('one of two probes is made, and a retry after it is an attempt', async ({ bus }) => {
    const first = await held(bus);
    const probed = await Promise.all([codeOf(probe(bus.db, first)), codeOf(probe(other.db, first))]);
    expect(probed.toSorted()).toEqual(['done', 'not_waiting']);
    // Due by the probe, it is not waiting any more.
    const retry = retryNow(other.db, { deliveryId: first, by, now: new Date(PROBED_AT) });
    expect(await codeOf(retry)).toBe('not_waiting');
    await drain(bus.db, [ledger(fail)], { now: PROBED_AT });
    await retryNow(other.db, { deliveryId: first, by, now: new Date(PROBED_AT) });
    await drain(bus.db, [ledger(fail)], { now: PROBED_AT });
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({ attempts: 2 });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('a retry and a probe at once are one attempt, which the first of them pays for or not', async ({
    bus,
  }) => {
    const first = await held(bus);
    const [probed, retried] = await Promise.all([
      codeOf(probe(bus.db, first)),
      codeOf(retryNow(other.db, { deliveryId: first, by, now: new Date(PROBED_AT) })),
    ]);
    expect([probed, retried].toSorted()).toEqual(['done', 'not_waiting']);
    let calls = 0;
    await drain(
      bus.db,
      [
        ledger(() => {
          calls += 1;
          throw new Error('down');
        }),
      ],
      { now: PROBED_AT },
    );
    expect(calls).toBe(1);
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({ attempts: probed === 'done' ? 1 : 2 });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('neither is made while a relay tries the delivery, whose probe still costs nothing', async ({
    bus,
  }) => {
    const first = await held(bus);
    await probe(bus.db, first);
    const [begun, ended] = [gate(), gate()];
    const trying = drain(
      bus.db,
      [
        ledger(async () => {
          begun.open();
          await ended.opened;
          throw new PermanentError('still down');
        }),
      ],
      { now: PROBED_AT },
    );
    await begun.opened;
    expect(await codeOf(probe(other.db, first))).toBe('under_way');
    expect(await codeOf(retryNow(other.db, { deliveryId: first, by, now: new Date(PROBED_AT) }))).toBe(
      'under_way',
    );
    ended.open();
    await trying;
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({
      state: 'failing',
      attempts: 1,
      nextAttemptAt: START + MINUTE,
    });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('a relay that dies in the attempt makes it cost nothing either', async ({ bus }) => {
    const first = await held(bus);
    await probe(bus.db, first);
    await holdLanes(bus.db, { subscriber: 'ledger', until: new Date(PROBED_AT + SECOND) });
    await drain(bus.db, [ledger(fail)], { now: PROBED_AT + 2 * SECOND });
    const [delivery] = await deliveriesOf(bus.db, 'ledger');
    expect(delivery).toMatchObject({ attempts: 1, nextAttemptAt: START + MINUTE });
    expect(delivery!.log?.at(-1)).toMatchObject({ outcome: 'waited', kind: 'lease_expired' });
  });
});

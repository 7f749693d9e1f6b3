import { describe, expect } from 'vitest';

import { pause, resume } from '../../lib/bus/deliveries/operations/pause.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drain, emitPayments, payloadOf, rows, START, emitAlone } from '../support/bus.ts';
import { deliveriesOf, deliveryIdsOf, statesOf } from '../support/records.ts';
import { holdLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { fail, ledger } from '../support/ledger.ts';

const at = (ms: number) => new Date(START + ms);

const actions = (bus: Bus) =>
  rows(
    bus.db,
    `select operator, action, topic, subscriber, delivery_id as "deliveryId", reason from operator_actions order by at`,
  );

const by = 'kari';

describe('an early retry', () => {
  test('makes the retry that a lane waits for due, the lane continues, and the log says who and why', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger(fail)]);
    const [first] = await deliveryIdsOf(bus.db);
    expect(
      await retryNow(bus.db, { deliveryId: first!, by, reason: 'it is mended', now: at(SECOND) }),
    ).toEqual({ deliveryId: first, topic: 'payment.captured', subscriber: 'ledger' });
    const handed: number[] = [];
    await drain(bus.db, [ledger((number) => handed.push(number))], { now: at(SECOND) });
    expect(handed).toEqual([1, 2, 3]);
    expect(await actions(bus)).toEqual([
      {
        operator: by,
        action: 'retry',
        topic: 'payment.captured',
        subscriber: 'ledger',
        deliveryId: first,
        reason: 'it is mended',
      },
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('uses no attempt: a failure after it waits as long as the scheduled retry would have', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(fail)]);
    const [first] = await deliveryIdsOf(bus.db);
    await retryNow(bus.db, { deliveryId: first!, by, now: at(SECOND) });
    await drain(bus.db, [ledger(fail)], { now: at(SECOND) });
    expect(await deliveriesOf(bus.db, 'ledger')).toMatchObject([
      { state: 'failing', attempts: 2, nextAttemptAt: START + SECOND + 5 * MINUTE },
    ]);
  });

  test('ends a wait that the handler asked for', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [
      ledger(() => {
        throw new RetryAfter(MINUTE);
      }),
    ]);
    const [first] = await deliveryIdsOf(bus.db);
    await retryNow(bus.db, { deliveryId: first!, by, now: at(SECOND) });
    await drain(bus.db, [ledger()], { now: at(SECOND) });
    expect(await statesOf(bus.db)).toEqual(['delivered']);
  });
});

describe('a skip', () => {
  test('makes the delivery that holds a lane a dead letter, the lane continues, and the log says who and why', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger(fail)]);
    const [first] = await deliveryIdsOf(bus.db);
    expect(await skip(bus.db, { deliveryId: first!, by, reason: 'hopeless', now: at(SECOND) })).toMatchObject(
      {
        deliveryId: first,
      },
    );
    const handed: number[] = [];
    await drain(bus.db, [ledger((number) => handed.push(number))], { now: at(SECOND) });
    expect(handed).toEqual([2, 3]);
    expect(await statesOf(bus.db)).toEqual(['dead_lettered', 'delivered', 'delivered']);
    expect(await actions(bus)).toMatchObject([
      { operator: by, action: 'skip', deliveryId: first, reason: 'hopeless' },
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('has one error group per subscription, whatever the reasons', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(fail)]);
    for (const [index, deliveryId] of (await deliveryIdsOf(bus.db)).entries()) {
      await skip(bus.db, { deliveryId, by, reason: `reason ${'abc'[index]}`, now: at(SECOND) });
    }
    expect(await rows(bus.db, 'select kind, message from error_groups')).toEqual([
      { kind: 'skipped', message: 'skipped by an operator' },
    ]);
  });

  test('leaves a dead letter that can be replayed into its place', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(fail)]);
    const [first] = await deliveryIdsOf(bus.db);
    await skip(bus.db, { deliveryId: first!, by, reason: 'hopeless', now: at(SECOND) });
    await replay(bus.db, { deliveryIds: [first!] }, by, at(2 * SECOND));
    const handed: number[] = [];
    await drain(bus.db, [ledger((number) => handed.push(number))], { now: at(2 * SECOND) });
    expect(handed).toEqual([1, 2]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('that would not be logged is not made', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(fail)]);
    const [first] = await deliveryIdsOf(bus.db);
    const reason = 'x'.repeat(10);
    await rows(
      bus.db,
      `create function refuse_action() returns trigger language plpgsql as $$ begin raise 'the log is full'; end $$`,
    );
    await rows(
      bus.db,
      'create trigger refuse_action before insert on operator_actions for each row execute function refuse_action()',
    );
    try {
      await expect(skip(bus.db, { deliveryId: first!, by, reason, now: at(1) })).rejects.toThrow(
        'the log is full',
      );
      await expect(retryNow(bus.db, { deliveryId: first!, by, now: at(1) })).rejects.toThrow(
        'the log is full',
      );
      await expect(pause(bus.db, { subscriber: 'ledger', topic: null }, by, reason)).rejects.toThrow(
        'the log is full',
      );
    } finally {
      await rows(bus.db, 'drop function refuse_action cascade');
    }
    expect(await statesOf(bus.db)).toEqual(['failing']);
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('an early retry and a skip refuse', () => {
  const codeOf = (acting: Promise<unknown>) =>
    acting.then(
      () => 'done',
      (error: { code: string }) => error.code,
    );
  const both = async (bus: Bus, deliveryId: string) => [
    await codeOf(retryNow(bus.db, { deliveryId, by, now: at(SECOND) })),
    await codeOf(skip(bus.db, { deliveryId, by, reason: 'hopeless', now: at(SECOND) })),
  ];

  test('a delivery that is not the first of its lane', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(fail)]);
    const [, second] = await deliveryIdsOf(bus.db);
    expect(await both(bus, second!)).toEqual(['not_first', 'not_first']);
    expect(await actions(bus)).toEqual([]);
  });

  test('a delivery that was delivered or is a dead letter', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [
      ledger((number) => {
        if (number === 2) throw new PermanentError('refused');
      }),
    ]);
    const [delivered, dead] = await deliveryIdsOf(bus.db);
    expect(await both(bus, delivered!)).toEqual(['not_waiting', 'not_waiting']);
    expect(await both(bus, dead!)).toEqual(['not_waiting', 'not_waiting']);
  });

  test('a delivery that a relay has claimed, even one that died with it', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    await holdLanes(bus.db, { subscriber: 'ledger', until: new Date(Date.now() - HOUR) });
    const [first] = await deliveryIdsOf(bus.db);
    expect(await both(bus, first!)).toEqual(['under_way', 'under_way']);
  });

  test('an unknown delivery', async ({ bus }) => {
    expect(await both(bus, '17-18')).toEqual(['not_found', 'not_found']);
    expect(await both(bus, '999999999999999999-999999999999999999')).toEqual(['not_found', 'not_found']);
  });

  test('to retry a delivery that is already due, which can still be skipped', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    const [first] = await deliveryIdsOf(bus.db);
    expect(await both(bus, first!)).toEqual(['not_waiting', 'done']);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('a pause', () => {
  const all = { subscriber: 'ledger', topic: null };
  const paymentsAlone = { subscriber: 'ledger', topic: 'payment.captured' };

  /** Hands over one payment and one invoice. @returns who was handed what. */
  async function handed(bus: Bus): Promise<string[]> {
    const found: string[] = [];
    await emitPayments(bus.db, 1, 1);
    await emitAlone(bus.db, 'invoice.paid', payloadOf('invoice.paid'));
    await drain(bus.db, [
      subscriber('ledger', {
        'payment.captured': () => void found.push('payment to the ledger'),
        'invoice.paid': () => void found.push('invoice to the ledger'),
      }),
      subscriber('accounting', { 'payment.captured': () => void found.push('payment to accounting') }),
    ]);
    return found.toSorted();
  }

  test('of a whole subscriber holds all its topics, and no other subscriber', async ({ bus }) => {
    expect(await pause(bus.db, all, by, 'moving house')).toBe(true);
    expect(await handed(bus)).toEqual(['payment to accounting']);
    expect(await statesOf(bus.db)).toEqual(['pending', 'pending']);
    expect((await deliveriesOf(bus.db, 'ledger')).map(({ attempts }) => attempts)).toEqual([0, 0]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('of one topic holds that topic, and no other', async ({ bus }) => {
    await pause(bus.db, paymentsAlone, by, 'moving house');
    expect(await handed(bus)).toEqual(['invoice to the ledger', 'payment to accounting']);
  });

  test('ends with a resume, and the waiting deliveries are handed over in order', async ({ bus }) => {
    await pause(bus.db, all, by, 'moving house');
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger()]);
    expect(await resume(bus.db, all, 'ola', 'moved')).toBe(true);
    const seen: number[] = [];
    await drain(bus.db, [ledger((number) => seen.push(number))]);
    expect(seen).toEqual([1, 2, 3]);
  });

  test('of one topic is not ended by a resume of all, nor the other way round', async ({ bus }) => {
    await pause(bus.db, paymentsAlone, by, 'moving house');
    expect(await resume(bus.db, all, by, null)).toBe(false);
    expect(await handed(bus)).toEqual(['invoice to the ledger', 'payment to accounting']);
    await pause(bus.db, all, by, 'moving house');
    expect(await resume(bus.db, paymentsAlone, by, null)).toBe(true);
    expect(await handed(bus)).toEqual(['payment to accounting']);
  });

  test('that is asked for twice keeps its first operator and reason, and is logged once', async ({ bus }) => {
    expect(await pause(bus.db, all, by, 'moving house')).toBe(true);
    expect(await pause(bus.db, all, 'ola', 'another reason')).toBe(false);
    expect(await rows(bus.db, 'select subscriber, topic, paused_by, reason from pauses')).toEqual([
      { subscriber: 'ledger', topic: '', paused_by: by, reason: 'moving house' },
    ]);
    expect(await resume(bus.db, all, 'ola', null)).toBe(true);
    expect(await resume(bus.db, all, 'ola', null)).toBe(false);
    expect(await actions(bus)).toEqual([
      {
        operator: by,
        action: 'pause',
        topic: null,
        subscriber: 'ledger',
        deliveryId: null,
        reason: 'moving house',
      },
      {
        operator: 'ola',
        action: 'resume',
        topic: null,
        subscriber: 'ledger',
        deliveryId: null,
        reason: null,
      },
    ]);
  });

  test('still lets an operator retry and skip the waiting deliveries', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(fail)]);
    await pause(bus.db, all, by, 'moving house');
    const [first] = await deliveryIdsOf(bus.db);
    await retryNow(bus.db, { deliveryId: first!, by, now: at(SECOND) });
    await drain(bus.db, [ledger()], { now: at(SECOND) });
    expect(await statesOf(bus.db)).toEqual(['failing', 'pending']);
    await skip(bus.db, { deliveryId: first!, by, reason: 'hopeless', now: at(2 * SECOND) });
    expect(await statesOf(bus.db)).toEqual(['dead_lettered', 'pending']);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

import { describe, expect } from 'vitest';

import { takeBackTimes } from '../../lib/bus/deliveries/take-back-times.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import type { MakeLedger } from '../support/bus-test.ts';
import {
  contradictions,
  drain,
  drainLive,
  emitPayments,
  numbers,
  rows,
  START,
  eventStates,
} from '../support/bus.ts';
import {
  deliveriesOf,
  statesOf,
  awaitingPlace,
  haltsOf,
  dueTimesOf,
  leasedLanes,
} from '../support/records.ts';
import {
  changeDeliveries,
  delayRetries,
  holdLanes,
  insertMarker,
  relist,
  shiftCreation,
} from '../support/scenes.ts';
import { loseAnswers } from '../support/lost-answers.ts';

const WAYS: readonly (readonly [string, Parameters<MakeLedger>[1]])[] = [
  ['one event at a time', {}],
  ['one event at a time, halting at dead letters', { afterDeadLetter: 'halt' }],
  ['one event at a time, waiting in outages', { outage: 'wait' }],
];

describe('a marker without an event stops nothing but itself:', () => {
  test.for(WAYS)(
    'a subscriber that takes %s is handed what is before and behind it',
    async ([, options], { bus, handed, ledger }) => {
      await emitPayments(bus.db, 1, 3);
      await insertMarker(bus.db, 'payment.captured', '', ['ledger']);
      await emitPayments(bus.db, 4, 6);
      await drain(bus.db, [ledger(undefined, options)]);

      expect(handed).toEqual(numbers(1, 6));
      const strange = (await deliveriesOf(bus.db, 'ledger')).find(({ state }) => state !== 'delivered');
      expect(strange).toMatchObject({
        state: 'dead_lettered',
        log: [{ attempt: 1, outcome: 'failed', kind: 'event_missing' }],
      });
      expect(await rows(bus.db, 'select kind from error_groups')).toEqual([{ kind: 'event_missing' }]);
      expect(await haltsOf(bus.db)).toHaveLength(0);
    },
  );

  test.for([
    [
      'in shared transactions',
      (take: (payment: number) => void) =>
        subscriber(
          'ledger',
          { 'payment.captured': ({ payload }) => take(payload.amountMinor) },
          { transactional: true },
        ),
    ],
    [
      'in batches',
      (take: (payment: number) => void) =>
        subscriber(
          'ledger',
          { 'payment.captured': (events) => events.forEach(({ payload }) => take(payload.amountMinor)) },
          { batch: true },
        ),
    ],
  ] as const)('so it is for a subscriber that takes them %s', async ([, ledgerOf], { bus }) => {
    await emitPayments(bus.db, 1, 3);
    await insertMarker(bus.db, 'payment.captured', '', ['ledger']);
    await emitPayments(bus.db, 4, 6);
    const taken: number[] = [];
    await drain(bus.db, [ledgerOf((payment) => void taken.push(payment))]);
    expect(taken).toEqual(numbers(1, 6));
    expect(await statesOf(bus.db)).toEqual(
      numbers(1, 7).map((place) => (place === 4 ? 'dead_lettered' : 'delivered')),
    );
  });

  test('other keys of its lane go on', async ({ bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 2, { orderingKey: 'key 13' });
    await insertMarker(bus.db, 'payment.captured', 'key 14', ['ledger']);
    await emitPayments(bus.db, 3, 4, { orderingKey: 'key 19' });
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual(numbers(1, 4));
  });

  test('a relay that dies beside it charges it with no attempt of anybody', async ({
    bus,
    handed,
    ledger,
  }) => {
    await insertMarker(bus.db, 'payment.captured', '', ['ledger']);
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    await holdLanes(bus.db, { subscriber: 'ledger', until: new Date(START - MINUTE) });
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1]);
    expect((await deliveriesOf(bus.db, 'ledger')).map(({ state, attempts }) => [state, attempts])).toEqual([
      ['dead_lettered', 1],
      ['delivered', 1],
    ]);
  });
});

describe('a marker that cannot get its place', () => {
  test.for([
    ['names nobody among its subscribers', 'payment.captured', '', ['ledger', null]],
    ['has a key too long for an index', 'payment.captured', 'incompressible', ['ledger']],
  ] as const)(
    'that %s is set aside, and all else flows',
    async ([, topic, key, subscribers], { bus, handed, ledger }) => {
      const orderingKey = key === '' ? key : Array.from({ length: 400 }, () => crypto.randomUUID()).join('');
      await emitPayments(bus.db, 1, 2);
      await insertMarker(bus.db, topic, orderingKey, subscribers);
      await emitPayments(bus.db, 3, 4);
      await drain(bus.db, [ledger()]);

      expect(handed).toEqual(numbers(1, 4));
      const aside = await rows<{ kind: string; topic: string; seq: number; error: string }>(
        bus.db,
        `select kind, topic, (found ->> 'seq')::int as seq, found ->> 'error' as error from set_aside`,
      );
      expect(aside).toEqual([
        { kind: 'unfit_marker', topic, seq: -1, error: expect.stringMatching(/null value|log_ordering_key/) },
      ]);
      expect(await awaitingPlace(bus.db)).toHaveLength(0);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );
});

describe('an event for nobody', () => {
  test.for([1, 2])('waits for nothing once it has its place, of %s at once', async (last, { bus }) => {
    await emitPayments(bus.db, 1, last);
    await relist(bus.db, `'{}'`);
    await drain(bus.db, []);
    expect(await awaitingPlace(bus.db)).toEqual([]);
    expect(await eventStates(bus.db)).toEqual(Array(last).fill('delivered'));
    expect(await rows(bus.db, 'select from subscription_counts where pending <> 0')).toEqual([]);
  });
});

describe('a lane that somebody deleted by hand', () => {
  test.for([
    ['of events without a key', {}],
    ['of keys', { orderingKey: 'booking 7' }],
  ] as const)('%s is made again with the next event', async ([, options], { bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 2, options);
    await drain(bus.db, [ledger()]);
    await rows(bus.db, 'delete from lanes');
    await emitPayments(bus.db, 3, 4, options);
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual(numbers(1, 4));
  });
});

describe('a delivery that somebody put back by hand', () => {
  test('is delivered before what is newer', async ({ bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger()]);
    await rows(
      bus.db,
      `insert into exceptions (lane, position, event_id, ordering_key, state, is_open, due_at)
       select lane, position, event_id, '', 'pending', true, clock_timestamp() from deliveries
       where subscriber = 'ledger' and position = 1`,
    );
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2, 1, 3]);
    expect(await statesOf(bus.db)).toEqual(['delivered', 'delivered', 'delivered']);
  });
});

describe('a clock that was ahead and is back', () => {
  const minutesUntil = (at: number) => Math.round((at - Date.now()) / MINUTE);

  /** Stands for a relay that ran while the clock was two hours ahead. */
  const WAS_AHEAD = `update last_pass set at = clock_timestamp() + interval '2 hours'`;

  test('holds back no event that was recorded meanwhile, and none that was recorded since', async ({
    bus,
    handed,
    ledger,
  }) => {
    const [early] = await emitPayments(bus.db, 1, 1);
    await shiftCreation(bus.db, '2 hours');
    await drainLive(bus.db, [ledger()]);
    await emitPayments(bus.db, 2, 2);
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2]);
    const [event] = await rows<{ is_past: boolean }>(
      bus.db,
      'select created_at < clock_timestamp() as is_past from events where id = $1::uuid',
      [early],
    );
    expect(event).toEqual({ is_past: true });
    expect(await rows(bus.db, `select kind, (found ->> 'events')::int as events from set_aside`)).toEqual([
      { kind: 'clock_was_ahead', events: 1 },
    ]);
  });

  test('leaves the lease of a relay that died no later than it would be by the right clock', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await drainLive(bus.db, []);
    await holdLanes(bus.db, { subscriber: 'ledger', until: new Date(Date.now() + 7230 * SECOND) });
    await rows(bus.db, WAS_AHEAD);
    await drainLive(bus.db, []);
    const [lane] = await leasedLanes(bus.db, 'ledger');
    expect(lane!.until).toBeLessThanOrEqual(Date.now() + 80 * SECOND);
  });

  test('moves a retry to its own wait after now, and leaves one alone that waits by the right clock', async ({
    bus,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'key 13' });
    await emitPayments(bus.db, 2, 2, { orderingKey: 'key 14' });
    const down = ledger(() => {
      throw new Error('down');
    });
    await drainLive(bus.db, [down]);
    const ofKey13 = `ordering_key = 'key 13' and next_attempt_at is not null`;
    await changeDeliveries(bus.db, `attempted_at = attempted_at + interval '2 hours'`, ofKey13);
    await delayRetries(bus.db, '2 hours', ofKey13);
    await delayRetries(bus.db, '6 hours', `ordering_key = 'key 14'`);
    await rows(bus.db, WAS_AHEAD);
    await drainLive(bus.db, [down]);
    const due = (await dueTimesOf(bus.db, 'ledger')).filter(({ key }) => key !== '');
    expect(due.map(({ key, at }) => [key, minutesUntil(at)])).toEqual([
      ['key 13', 1],
      ['key 14', 361],
    ]);
    const retries = (await deliveriesOf(bus.db, 'ledger')).map(({ nextAttemptAt }) => nextAttemptAt);
    expect(due.map(({ at }) => at)).toEqual(retries);
  });

  test('is one case to repair, however often its times are found within minutes', async ({ bus, output }) => {
    output.text();
    await emitPayments(bus.db, 1, 1);
    await drainLive(bus.db, []);
    const found = () =>
      rows(
        bus.db,
        `select (found ->> 'lanes')::int as lanes, (found ->> 'aheadBySeconds')::int > 7000 as is_two_hours,
           repaired_at is null as is_open
         from set_aside order by id`,
      );
    await holdLanes(bus.db, { subscriber: 'ledger', until: new Date() });
    const leaveTimes = () =>
      rows(
        bus.db,
        `update journal set leased_until = now() + interval '2 hours' where leased_until is not null`,
      );
    await rows(bus.db, WAS_AHEAD);
    for (let time = 1; time <= 3; time += 1) {
      await leaveTimes();
      await takeBackTimes(bus.db);
    }
    const three = { lanes: 3, is_two_hours: true };
    expect(await found()).toEqual([{ ...three, is_open: true }]);
    await rows(bus.db, `update set_aside set repaired_at = now(), repaired_by = 'kari'`);
    const one = { lanes: 1, is_two_hours: false, is_open: true };
    await leaveTimes();
    await takeBackTimes(bus.db);
    expect(await found()).toEqual([{ ...three, is_open: false }, one]);
    await rows(bus.db, `update set_aside set at = at - interval '11 minutes'`);
    await leaveTimes();
    await takeBackTimes(bus.db);
    expect(await found()).toEqual([{ ...three, is_open: false }, one, one]);
  });

  describe('while a handler of an earlier claim runs', () => {
    /** Has the first claim read a clock that is two hours ahead. */
    const claimAhead = () => {
      let hasClaimed = false;
      loseAnswers({
        after: (text, [row]) => {
          if (!/postbud_turn_\d/.test(text) || hasClaimed) return false;
          const { answer } = row as { answer: { now: number; clock: number; claimed: object | null } };
          if (answer.claimed === null) return false;
          hasClaimed = true;
          answer.now += 2 * HOUR;
          answer.clock += 2 * HOUR;
          return false;
        },
      });
    };

    test.for([
      ['its retry', false],
      ['its retry, where its relay ends meanwhile,', true],
    ] as const)(
      'leaves %s no later than it would be by the right clock',
      async ([, ends], { bus, ledger, output }) => {
        output.text();
        await emitPayments(bus.db, 1, 1);
        claimAhead();
        const stop = new AbortController();
        const down = ledger(() => {
          if (ends) stop.abort();
          throw new Error('down');
        });
        await relay({ db: bus.db, subscribers: [down], until: Date.now() + 45_000, stop: stop.signal });
        const due = await dueTimesOf(bus.db, 'ledger');
        expect(due.map(({ at }) => minutesUntil(at))).toEqual([1]);
        expect(await deliveriesOf(bus.db, 'ledger')).toMatchObject([{ nextAttemptAt: due[0]!.at }]);
      },
    );

    test('leaves the lease of its key no longer than it would be by the right clock', async ({
      bus,
      ledger,
      output,
    }) => {
      output.text();
      await emitPayments(bus.db, 1, 1, { orderingKey: 'a key' });
      claimAhead();
      const leases = () =>
        rows(
          bus.db,
          `select leased_until < clock_timestamp() + interval '90 seconds' as is_right from lane_heads
           where leased_until is not null`,
        );
      let found: unknown;
      // It becomes an exception in hand, and its lane stays with its relay.
      const slow = ledger(async () => {
        await expect.poll(async () => (found = await leases())).toEqual([{ is_right: true }]);
      });
      await drainLive(bus.db, [slow]);
      expect(found).toEqual([{ is_right: true }]);
      expect(await statesOf(bus.db)).toEqual(['delivered']);
    });
  });
});

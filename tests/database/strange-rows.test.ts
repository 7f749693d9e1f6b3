import { describe, expect } from 'vitest';

import { takeBackTimes } from '../../lib/bus/deliveries/take-back-times.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { HOUR, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import type { MakeLedger } from '../support/bus-test.ts';
import {
  contradictions,
  deliveriesOf,
  drain,
  drainLive,
  emitPayments,
  numbers,
  rows,
  START,
  statesOf,
} from '../support/bus.ts';
import { loseAnswers } from '../support/lost-answers.ts';

/** A marker as a producer could insert it who may write to the tables. */
const MARKER = `insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, payload_bytes, subscribers)
  values ($1, clock_timestamp(), -1, gen_random_uuid(), $2, 1, 10, $3::text[])`;

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
      await rows(bus.db, MARKER, ['payment.captured', '', '{ledger}']);
      await emitPayments(bus.db, 4, 6);
      await drain(bus.db, [ledger(undefined, options)]);

      expect(handed).toEqual(numbers(1, 6));
      const strange = (await deliveriesOf(bus.db, 'ledger')).find(({ state }) => state !== 'delivered');
      expect(strange).toMatchObject({
        state: 'dead_lettered',
        log: [{ attempt: 1, outcome: 'failed', kind: 'event_missing' }],
      });
      expect(await rows(bus.db, 'select kind, dead_lettered::int from error_groups')).toEqual([
        { kind: 'event_missing', dead_lettered: 1 },
      ]);
      expect(await rows(bus.db, 'select from halts')).toHaveLength(0);
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
    await rows(bus.db, MARKER, ['payment.captured', '', '{ledger}']);
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
    await rows(bus.db, MARKER, ['payment.captured', 'key 14', '{ledger}']);
    await emitPayments(bus.db, 3, 4, { orderingKey: 'key 19' });
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual(numbers(1, 4));
  });

  test('a relay that dies beside it charges it with no attempt of anybody', async ({
    bus,
    handed,
    ledger,
  }) => {
    await rows(bus.db, MARKER, ['payment.captured', '', '{ledger}']);
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    await rows(
      bus.db,
      `update lanes set due_at = to_timestamp($1::float8 / 1000), lease_token = gen_random_uuid()
       where subscriber = 'ledger'`,
      [START - MINUTE],
    );
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1]);
    expect((await deliveriesOf(bus.db, 'ledger')).map(({ state, attempts }) => [state, attempts])).toEqual([
      ['dead_lettered', 1],
      ['delivered', 1],
    ]);
  });
});

describe('a marker that cannot be fanned out', () => {
  test.for([
    ['names nobody among its subscribers', 'payment.captured', '', '{ledger,NULL}'],
    ['has a key too long for an index', 'payment.captured', 'incompressible', '{ledger}'],
  ] as const)(
    'that %s is set aside, and all else flows',
    async ([, topic, key, subscribers], { bus, handed, ledger }) => {
      const orderingKey = key === '' ? key : Array.from({ length: 400 }, () => crypto.randomUUID()).join('');
      await emitPayments(bus.db, 1, 2);
      await rows(bus.db, MARKER, [topic, orderingKey, subscribers]);
      await emitPayments(bus.db, 3, 4);
      await drain(bus.db, [ledger()]);

      expect(handed).toEqual(numbers(1, 4));
      const aside = await rows<{ kind: string; topic: string; seq: number; error: string }>(
        bus.db,
        `select kind, topic, (found ->> 'seq')::int as seq, found ->> 'error' as error from set_aside`,
      );
      expect(aside).toEqual([
        { kind: 'unfit_marker', topic, seq: -1, error: expect.stringMatching(/null value|index row/) },
      ]);
      expect(await rows(bus.db, 'select from awaiting_fan_out')).toHaveLength(0);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );
});

describe('an event for nobody', () => {
  test.for([1, 2])('waits for nothing once it is fanned out, of %s at once', async (last, { bus }) => {
    await emitPayments(bus.db, 1, last);
    await rows(bus.db, `update awaiting_fan_out set subscribers = '{}', open = 0`);
    await rows(bus.db, `update events set subscribers = '{}', open = 0`);
    await drain(bus.db, []);
    expect(await rows(bus.db, 'select from awaiting_fan_out')).toEqual([]);
    expect(await rows(bus.db, `select from events where state <> 'delivered'`)).toEqual([]);
    expect(await rows(bus.db, 'select from backlog where pending <> 0')).toEqual([]);
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
  test('is delivered, and its event’s counters, which know nothing of it, stop no lane', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger()]);
    await rows(
      bus.db,
      `with put_back as (
         update deliveries set state = 'pending', attempts = 0, delivered_at = null
         where position = (select min(position) from deliveries) and lane_id = (select id from lanes where subscriber = 'ledger')
         returning lane_id, position
       )
       update lanes set head = position - 1, due_at = clock_timestamp() from put_back where id = lane_id`,
    );
    await rows(bus.db, `update events set open = 0`);
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2, 1, 3]);
    expect(await statesOf(bus.db)).toEqual(['delivered', 'delivered', 'delivered']);
  });
});

describe('a clock that was ahead and is back', () => {
  /** Stands for a relay that ran while the clock was two hours ahead. */
  const WAS_AHEAD = `update last_pass set at = clock_timestamp() + interval '2 hours'`;

  test('holds back no event that was recorded meanwhile, and none that was recorded since', async ({
    bus,
    handed,
    ledger,
  }) => {
    const [early] = await emitPayments(bus.db, 1, 1);
    await rows(bus.db, `update events set created_at = created_at + interval '2 hours'`);
    await rows(bus.db, `update awaiting_fan_out set created_at = created_at + interval '2 hours'`);
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

  test.for([
    [
      'the lease of a relay that died',
      `lease_token = gen_random_uuid(), due_at = now() + interval '7230 seconds'`,
      80,
    ],
    ['a lane that became due', `due_at = now() + interval '2 hours'`, 0],
  ] as const)(
    'leaves %s no later than it would be by the right clock',
    async ([, changed, seconds], { bus }) => {
      await emitPayments(bus.db, 1, 1);
      await drainLive(bus.db, []);
      await rows(bus.db, `update lanes set ${changed} where subscriber = 'ledger'`);
      await rows(bus.db, WAS_AHEAD);
      await drainLive(bus.db, []);
      const [lane] = await rows<{ is_late: boolean }>(
        bus.db,
        `select coalesce(due_at, leased_until) > clock_timestamp() + $1 * interval '1 second' as is_late from lanes where subscriber = 'ledger'`,
        [seconds],
      );
      expect(lane).toEqual({ is_late: false });
    },
  );

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
    await rows(
      bus.db,
      `with later as (
         update deliveries set attempted_at = attempted_at + interval '2 hours',
           next_attempt_at = next_attempt_at + interval '2 hours'
         where lane_key = 'key 13' and next_attempt_at is not null returning next_attempt_at
       )
       update lanes set due_at = next_attempt_at from later where held_key = 'key 13'`,
    );
    await rows(
      bus.db,
      `update deliveries set next_attempt_at = next_attempt_at + interval '6 hours' where lane_key = 'key 14'`,
    );
    await rows(bus.db, `update lanes set due_at = due_at + interval '6 hours' where held_key = 'key 14'`);
    await rows(bus.db, WAS_AHEAD);
    await drainLive(bus.db, [down]);
    const waits = await rows<{ key: string; minutes: number; agrees: boolean }>(
      bus.db,
      `select held_key as key, round(extract(epoch from due_at - clock_timestamp()) / 60)::int as minutes,
         due_at = (select next_attempt_at from deliveries where lane_id = home_id and lane_key = held_key) as agrees
       from lanes where held_key > '' order by held_key`,
    );
    expect(waits).toEqual([
      { key: 'key 13', minutes: 1, agrees: true },
      { key: 'key 14', minutes: 361, agrees: true },
    ]);
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
    const leaveTimes = () =>
      rows(bus.db, `update lanes set due_at = now() + interval '2 hours' where subscriber = 'ledger'`);
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
        const lanes = await rows(
          bus.db,
          `select round(extract(epoch from due_at - clock_timestamp()) / 60)::int as minutes, due_at = next_attempt_at as agrees
           from lanes join deliveries on lane_id = lanes.id where subscriber = 'ledger'`,
        );
        expect(lanes).toEqual([{ minutes: 1, agrees: true }]);
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
          `select leased_until < clock_timestamp() + interval '90 seconds' as is_right from lanes where held_key = 'a key'`,
        );
      let found: unknown;
      // The key leaves its shared lane, which such a long handler would hold up.
      const slow = ledger(async () => {
        await expect.poll(async () => (found = await leases())).toEqual([{ is_right: true }]);
      });
      await drainLive(bus.db, [slow]);
      expect(found).toEqual([{ is_right: true }]);
      expect(await statesOf(bus.db)).toEqual(['delivered']);
    });
  });
});

import { describe, expect } from 'vitest';

import { backfill } from '../../lib/bus/deliveries/operations/backfill.ts';
import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import { takeTurn } from '../../lib/bus/deliveries/turn.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR, MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  IDLE,
  START,
  contradictions,
  drain,
  emitAlone,
  emitPayments,
  numbers,
  payment,
  rows,
  storeBacklog,
} from '../support/bus.ts';
import { deliveriesOf, statesOf } from '../support/records.ts';

/** Two keys of one stream. */
const SAME_STREAM = ['booking 2', 'booking 3'] as const;

const statesOfKey = async (db: Database, key: string) =>
  (await deliveriesOf(db, 'ledger'))
    .filter(({ orderingKey }) => orderingKey === key)
    .map(({ state }) => state);

const TOKEN = '00000000-0000-4000-8000-000000000000';

/** Puts a subscriber's deliveries back that have ended. */
async function replay(db: Database, subscriber = 'ledger'): Promise<number> {
  const [row] = await rows<{ replayed: number }>(
    db,
    `select coalesce(sum(postbud_replay_1(lane, positions, '{"outcome": "replayed"}', to_timestamp($2::float8 / 1000))), 0)::int as replayed
     from (
       select lane, array_agg(position) as positions from deliveries
       where subscriber = $1 and state in ('delivered', 'dead_lettered') group by lane
     ) as chosen`,
    [subscriber, START],
  );
  return row!.replayed;
}

const heldOf = async (db: Database) => (await rows(db, 'select from exceptions where is_held')).length;

/** Ends the leases of all lanes, as if their relays had died long ago. */
async function endLeases(db: Database): Promise<void> {
  await rows(
    db,
    `update journal set leased_until = to_timestamp($1::float8 / 1000) - interval '1 second' where leased_until is not null`,
    [START],
  );
}

test('the keys of this file share a stream', async ({ bus: { db } }) => {
  const found = await rows<{ slots: number }>(
    db,
    'select count(distinct postbud_slot(key))::int as slots from unnest($1::text[]) as key',
    [[...SAME_STREAM]],
  );
  expect(found).toEqual([{ slots: 1 }]);
});

describe('what goes well', () => {
  test('has no row that changes, and keeps when it ended and how long its handler took', async ({
    bus: { db },
    ledger,
  }) => {
    await emitPayments(db, 1, 3);
    await drain(db, [ledger(async () => await sleep(20))]);
    expect(await rows(db, 'select from exceptions')).toEqual([]);
    const found = await rows<{ took: number; ended: number }>(
      db,
      `select duration_ms as took, (extract(epoch from delivered_at) * 1000)::float8 as ended from deliveries
       where subscriber = 'ledger' order by position`,
    );
    expect(found).toHaveLength(3);
    for (const { ended } of found) expect(ended).toBe(START);
    expect(await contradictions(db)).toEqual([]);
  });

  test('is read from the journal alike, however many claims it took', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    await storeBacklog(db, 'payment.captured', 5000, 40);
    expect(await drain(db, [ledger()])).toMatchObject({ delivered: 5000 });
    expect(handed).toHaveLength(5000);
    const [counted] = await rows(
      db,
      `select count(*)::int as records, count(*) filter (where state = 'delivered' and delivered_at is not null)::int as delivered
       from deliveries where subscriber = 'ledger'`,
    );
    expect(counted).toEqual({ records: 5000, delivered: 5000 });
    expect(await contradictions(db)).toEqual([]);
  });
});

describe('a delivery that fails', () => {
  test('parks the later ones of its key, and no other key of its stream', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    const [failing, beside] = SAME_STREAM;
    let isDown = true;
    const once = ledger((number) => {
      if (number === 1 && isDown) throw new Error('not yet');
    });
    await emitPayments(db, 1, 2, { orderingKey: failing });
    await emitPayments(db, 3, 3, { orderingKey: beside });
    expect(await drain(db, [once])).toMatchObject({ delivered: 1, failed: 1, nextRetryAt: START + MINUTE });
    await emitPayments(db, 4, 4, { orderingKey: failing });
    await emitPayments(db, 5, 5, { orderingKey: beside });
    await drain(db, [once]);
    expect(handed).toEqual([1, 3, 5]);
    expect(await statesOfKey(db, failing)).toEqual(['failing', 'pending', 'pending']);
    expect(await contradictions(db)).toEqual([]);
    isDown = false;
    await drain(db, [once], { now: START + MINUTE });
    expect(handed).toEqual([1, 3, 5, 1, 2, 4]);
    expect(await statesOf(db)).toEqual(Array(5).fill('delivered'));
    expect(await contradictions(db)).toEqual([]);
  });

  test('holds back its whole stream where that has no keys', async ({ bus: { db }, handed, ledger }) => {
    let isDown = true;
    const once = ledger((number) => {
      if (number === 2 && isDown) throw new Error('not yet');
    });
    await emitPayments(db, 1, 4);
    await drain(db, [once]);
    expect(handed).toEqual([1, 2]);
    isDown = false;
    await drain(db, [once], { now: START + MINUTE });
    expect(handed).toEqual([1, 2, 2, 3, 4]);
    expect(await contradictions(db)).toEqual([]);
  });

  test('holds back nothing as a dead letter, unless its subscription halts', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    const refusing = (options = {}) =>
      ledger((number) => {
        if (number === 1) throw new PermanentError('refused');
      }, options);
    await emitPayments(db, 1, 3);
    await drain(db, [refusing()]);
    expect(handed).toEqual([1, 2, 3]);
    handed.length = 0;
    await emitPayments(db, 1, 2, { orderingKey: SAME_STREAM[0] });
    await emitPayments(db, 3, 3, { orderingKey: SAME_STREAM[1] });
    await drain(db, [refusing({ afterDeadLetter: 'halt' })]);
    expect(handed).toEqual([1, 3]);
    // It is no better a year later, until an operator acts.
    await drain(db, [refusing({ afterDeadLetter: 'halt' })], { now: START + 365 * DAY });
    expect(handed).toEqual([1, 3]);
    expect(await contradictions(db)).toEqual([]);
    await replay(db);
    handed.length = 0;
    await drain(db, [ledger()]);
    expect(handed.toSorted((one, other) => one - other)).toEqual([1, 1, 2, 2, 3, 3]);
    expect(handed.indexOf(2)).toBeGreaterThan(handed.indexOf(1));
    expect(await contradictions(db)).toEqual([]);
  });
});

describe('a handler that takes long', () => {
  test('keeps its own key waiting and no other, also one whose events come meanwhile', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    const [slow, quick] = SAME_STREAM;
    await emitPayments(db, 1, 2, { orderingKey: slow });
    await emitPayments(db, 3, 3, { orderingKey: quick });
    let hasBegun = false;
    const taking = ledger(async (number) => {
      if (number !== 1) return;
      hasBegun = true;
      await emitPayments(db, 4, 4, { orderingKey: quick });
      await expect.poll(() => handed).toContain(4);
      expect(handed).not.toContain(2);
    });
    await drain(db, [taking]);
    expect(hasBegun).toBe(true);
    expect(handed.at(-1)).toBe(2);
    expect(await statesOf(db)).toEqual(Array(4).fill('delivered'));
    expect(await contradictions(db)).toEqual([]);
  });

  test('lets each of the others be handed over once, however many come meanwhile', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    const [slow, quick] = SAME_STREAM;
    await emitPayments(db, 1, 1, { orderingKey: slow });
    const taking = ledger(async (number) => {
      if (number !== 1) return;
      for (let next = 2; next <= 9; next += 1) {
        await emitPayments(db, next, next, { orderingKey: quick });
        await expect.poll(() => handed).toContain(next);
      }
    });
    await drain(db, [taking]);
    expect(handed).toEqual(numbers(1, 9));
    expect(await statesOf(db)).toEqual(Array(9).fill('delivered'));
    expect(await contradictions(db)).toEqual([]);
  });
});

describe('a replay', () => {
  test('puts deliveries back in their places, before what is new', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    await emitPayments(db, 1, 3);
    await drain(db, [ledger()]);
    handed.length = 0;
    expect(await replay(db)).toBe(3);
    expect(await statesOf(db)).toEqual(Array(3).fill('pending'));
    await emitPayments(db, 4, 4);
    const replayed: boolean[] = [];
    await drain(db, [ledger((_, context) => void replayed.push(context.replayed))]);
    expect(handed).toEqual([1, 2, 3, 4]);
    expect(replayed).toEqual([true, true, true, false]);
    const [log] = await rows<{ outcomes: string[] }>(
      db,
      `select array(select entry ->> 'outcome' from jsonb_array_elements(attempt_log) as entry) as outcomes
       from deliveries where subscriber = 'ledger' and position = 1`,
    );
    expect(log).toEqual({ outcomes: ['delivered', 'replayed'] });
    expect(await contradictions(db)).toEqual([]);
  });

  test('of what stands before a failing one of its key hands over each of them once', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    let isDown = true;
    const once = ledger((number) => {
      if (number === 2 && isDown) throw new Error('not yet');
    });
    await emitPayments(db, 1, 3);
    await drain(db, [once]);
    isDown = false;
    expect(await replay(db)).toBe(1);
    handed.length = 0;
    // Both are due.
    expect(await drain(db, [once], { now: START + MINUTE })).toMatchObject({ delivered: 3 });
    expect(handed).toEqual([1, 2, 3]);
    expect(await statesOf(db)).toEqual(Array(3).fill('delivered'));
    expect(await contradictions(db)).toEqual([]);
  });

  test('of what stands before a delivery in hand of its key waits until that has ended', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    const [slow, quick] = SAME_STREAM;
    await emitPayments(db, 1, 1, { orderingKey: slow });
    await drain(db, [ledger()]);
    await emitPayments(db, 2, 2, { orderingKey: slow });
    await emitPayments(db, 3, 3, { orderingKey: quick });
    handed.length = 0;
    const taking = ledger(async (number) => {
      if (number !== 2) return;
      await expect.poll(() => heldOf(db)).toBe(1);
      expect(await replay(db)).toBe(2);
      await emitPayments(db, 4, 5, { orderingKey: quick });
      await expect.poll(() => handed).toContain(5);
      expect(handed).not.toContain(1);
    });
    await drain(db, [taking]);
    expect(handed.at(-1)).toBe(1);
    expect(await statesOf(db)).toEqual(Array(5).fill('delivered'));
    expect(await contradictions(db)).toEqual([]);
  });
});

describe('a relay that died', () => {
  test('is charged to the first delivery that it may have begun; what it had besides follows one at a time', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    await emitPayments(db, 1, 3);
    const stop = new AbortController();
    const dying = ledger(async (number) => {
      if (number === 1) return;
      stop.abort();
      await sleep(SECOND);
    });
    await drain(db, [dying], { signal: stop.signal });
    // As if it had not let go of its lane.
    await rows(
      db,
      `insert into journal (lane, number, head, at, token, leased_until, first_claimed, claimed_to)
       select lane, number + 1, head, at, gen_random_uuid(), to_timestamp($1::float8 / 1000), head + 1, 3
       from journal as newest join lanes on lanes.id = lane and subscriber = 'ledger'
       order by head desc, number desc limit 1`,
      [START],
    );
    handed.length = 0;
    const report = await drain(db, [ledger()], { now: START + SECOND });
    expect(report).toMatchObject({ failed: 1, delivered: 0, nextRetryAt: START + MINUTE });
    expect(handed).toEqual([]);
    await drain(db, [ledger()], { now: START + HOUR });
    expect(handed).toEqual([2, 3]);
    const [second] = await rows<{ kind: string; attempts: number }>(
      db,
      `select attempt_log -> 0 ->> 'kind' as kind, attempts from deliveries where subscriber = 'ledger' and position = 2`,
    );
    expect(second).toEqual({ kind: 'lease_expired', attempts: 2 });
    expect(await contradictions(db)).toEqual([]);
  });

  /** Has a dead relay hold a lane, with both of its deliveries in hand. */
  async function dieWithBothInHand(db: Database): Promise<void> {
    const [slow, quick] = SAME_STREAM;
    await emitPayments(db, 1, 1, { orderingKey: slow });
    await emitPayments(db, 2, 2, { orderingKey: quick });
    await drain(db, []);
    await rows(
      db,
      `with lane as (select id from lanes where subscriber = 'ledger'),
       held as (
         insert into exceptions (lane, position, event_id, ordering_key, state, is_open, is_held)
         select lane.id, position, event_id, ordering_key, 'pending', true, true from lane, log join streams on streams.id = stream
       )
       insert into journal (lane, number, head, at, token, leased_until, first_claimed, claimed_to)
       select id, 1, 2, to_timestamp($1::float8 / 1000), gen_random_uuid(), to_timestamp($1::float8 / 1000), 1, 2 from lane`,
      [START - MINUTE],
    );
    await endLeases(db);
  }

  test('leaves nothing waiting that it had in hand for long', async ({ bus: { db }, handed, ledger }) => {
    await dieWithBothInHand(db);
    expect(await drain(db, [ledger()])).toMatchObject({ failed: 1, delivered: 1 });
    expect(handed).toEqual([2]);
    await drain(db, [ledger()], { now: START + HOUR });
    expect(handed).toEqual([2, 1]);
    expect(await contradictions(db)).toEqual([]);
  });

  test('leaves nothing waiting that it had in hand, also where a backfill lets its lane go', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    await dieWithBothInHand(db);
    const { isEnded } = await backfill(db, {
      topic: 'payment.captured',
      subscriber: 'ledger',
      since: new Date(0),
      by: 'kari',
      now: new Date(START),
    });
    expect(isEnded).toBe(true);
    await drain(db, [ledger()]);
    expect(handed).toEqual([1, 2]);
    expect(await contradictions(db)).toEqual([]);
  });
});

describe('a claim whose answer was lost', () => {
  /** Has a relay hold a lane until then, with one of two keys in hand. */
  async function hold(db: Database, untilMs: number): Promise<void> {
    const [slow, quick] = SAME_STREAM;
    await emitPayments(db, 1, 1, { orderingKey: slow });
    await emitPayments(db, 2, 2, { orderingKey: quick });
    await drain(db, []);
    await rows(
      db,
      `with lane as (select id from lanes where subscriber = 'ledger'),
       held as (
         insert into exceptions (lane, position, event_id, ordering_key, state, is_open, is_held)
         select lane.id, position, event_id, ordering_key, 'pending', true, true
         from lane, log join streams on streams.id = stream where position = 1
       )
       insert into journal (lane, number, head, at, token, leased_until, first_claimed, claimed_to)
       select id, 1, 1, to_timestamp($1::float8 / 1000), $2::uuid, to_timestamp($1::float8 / 1000), 1, 2 from lane`,
      [untilMs, TOKEN],
    );
  }

  const release = async (db: Database) =>
    await rows(
      db,
      `select postbud_release_lost_1(array(select distinct token from journal where token is not null), to_timestamp($1::float8 / 1000)) as lanes`,
      [START],
    );

  test('leaves nothing waiting that a dead relay had in hand', async ({ bus: { db }, handed, ledger }) => {
    await hold(db, START - MINUTE);
    await takeTurn(db, {
      ...IDLE,
      topics: [],
      subscriptions: subscriptionsOf([ledger()]),
      maxLanes: 10,
      maxDeliveries: 10,
      isLooking: true,
      now: new Date(START).toISOString(),
    });
    expect(await release(db)).toEqual([{ lanes: 1 }]);
    await drain(db, [ledger()]);
    expect(handed.toSorted((one, other) => one - other)).toEqual([1, 2]);
    expect(await contradictions(db)).toEqual([]);
  });
});

describe('a stream', () => {
  test('is for those whom its events name: who joins late begins with what names it', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    const unnamed = `update awaiting set subscribers = array_remove(subscribers, 'ledger')`;
    await emitPayments(db, 1, 2);
    await rows(db, unnamed);
    await drain(db, [ledger()]);
    expect(handed).toEqual([]);
    await emitAlone(db, 'payment.captured', payment(3));
    await drain(db, [ledger()]);
    await emitPayments(db, 4, 4);
    await rows(db, unnamed);
    await emitPayments(db, 5, 5);
    await drain(db, [ledger()]);
    expect(handed).toEqual([3, 5]);
    expect(await rows(db, 'select position::int as position from audiences order by position')).toEqual(
      [1, 3, 4, 5].map((position) => ({ position })),
    );
    expect(await statesOf(db)).toEqual(['delivered', 'delivered']);
    expect(await contradictions(db)).toEqual([]);
  });
});

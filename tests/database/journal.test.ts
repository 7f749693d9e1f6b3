import { expect } from 'vitest';

import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import type { LaneOutcome } from '../../lib/bus/deliveries/settle.ts';
import { takeTurn } from '../../lib/bus/deliveries/turn.ts';
import { HOUR, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, placeEvents, rows, settle } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';

const rollUp = async (db: Parameters<typeof rows>[0], now: number) =>
  await rows(db, 'select postbud_roll_up_1(to_timestamp($1::float8 / 1000))', [now]);

test('the cron adds the journal up by lane and minute once, and keeps of it what says when each delivery was made', async ({
  bus: { db },
  ledger,
}) => {
  await emitPayments(db, 1, 3);
  await drain(db, [ledger((number) => number === 3 && Promise.reject(new Error('not yet')))]);
  await drain(db, [ledger()], { now: START + MINUTE });
  const before = await deliveriesOf(db, 'ledger');
  // What is of the last minutes may be beside a transaction that is under way.
  await rollUp(db, START + MINUTE);
  expect(await rows(db, 'select from throughput_minutes')).toEqual([]);
  for (const now of [START + HOUR, START + 2 * HOUR]) await rollUp(db, now);
  expect(
    await rows(
      db,
      `select (extract(epoch from minute) * 1000)::float8 as minute, delivered::int, dead_lettered::int as dead
       from throughput_minutes order by minute`,
    ),
  ).toEqual([
    { minute: START, delivered: 2, dead: 0 },
    { minute: START + MINUTE, delivered: 1, dead: 0 },
  ]);
  expect(
    await rows(
      db,
      `select delivered::int, failed::int, (extract(epoch from last_delivered_at) * 1000)::float8 as last
       from lane_totals join lanes on lanes.id = lane where subscriber = 'ledger'`,
    ),
  ).toEqual([{ delivered: 3, failed: 1, last: START + MINUTE }]);
  expect(
    await rows(
      db,
      `select from journal join lanes on lanes.id = lane where subscriber = 'ledger' and leased_until is not null`,
    ),
  ).toEqual([]);
  expect(await deliveriesOf(db, 'ledger')).toEqual(before);
  expect(await contradictions(db)).toEqual([]);
});

test('a settlement that is repeated, since its answer was lost, changes nothing; that of a lane which another has changes nothing either', async ({
  bus: { db },
  ledger,
}) => {
  await emitPayments(db, 1, 2);
  await placeEvents(db);
  const subscriptions = subscriptionsOf([ledger()]);
  const claim = async () => await takeTurn(db, { ...LOOK, subscriptions });
  const { lanes } = await claim();
  const [lane] = lanes;
  const failed = {
    position: 1,
    atMs: START,
    durationMs: 5,
    replays: 0,
    isLapse: false,
    outcome: 'failed' as const,
    nextAttemptAtMs: START + MINUTE,
    kind: 'Error',
    message: 'no',
    answer: null,
    errorGroup: null,
    halts: false,
    isAbsent: null,
  };
  const outcome: LaneOutcome = {
    lane: lane!.lane,
    number: lane!.number,
    token: lane!.token,
    head: 1,
    first: null,
    delivered: [],
    exceptional: [{ position: 1, kind: 'failed', attempt: failed, replays: null }],
    keepMs: null,
    nextClaimed: null,
    carefulTo: null,
    isDoubtful: false,
  };
  expect(await settle(db, [outcome])).toMatchObject({ held: new Set([lane!.lane]), repeated: new Set() });
  const settled = await deliveriesOf(db, 'ledger');
  expect(settled.map(({ state, attempts }) => [state, attempts])).toEqual([
    ['failing', 1],
    ['pending', 0],
  ]);
  expect(await settle(db, [outcome])).toMatchObject({ held: new Set(), repeated: new Set([lane!.lane]) });
  const stolen = { ...outcome, token: '00000000-0000-0000-0000-000000000000', number: outcome.number + 1 };
  expect(await settle(db, [stolen])).toMatchObject({ held: new Set(), repeated: new Set() });
  expect(await deliveriesOf(db, 'ledger')).toEqual(settled);
  expect(await contradictions(db)).toEqual([]);
});

const LOOK = {
  outcomes: [],
  continued: [],
  behind: null,
  topics: [],
  maxLanes: 10,
  share: null,
  maxDeliveries: 10,
  maxEvents: 10,
  isLooking: true,
  awaited: [],
  clockMs: START,
  now: new Date(START).toISOString(),
};

import { randomUUID } from 'node:crypto';

import { describe, expect, onTestFinished } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { prune } from '../../lib/bus/deliveries/prune.ts';
import { NotActedOn } from '../../lib/bus/deliveries/refusals.ts';
import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { examine } from '../../lib/console/doctor/read.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, rows, settle } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { outcomeOf } from '../support/lane.ts';
import { fail, refuse } from '../support/ledger.ts';

const NAMES = ['bookings', 'ledger', 'notifications', 'accounting'] as const;
type Name = (typeof NAMES)[number];

interface Counters {
  readonly delivered: number;
  readonly failed: number;
  readonly deadLettered: number;
}

/** What Prometheus is told of a subscription to payments. */
async function countersOf(bus: Bus, name: Name = 'ledger'): Promise<Counters> {
  const lines = (await readMetrics(bus.db, [])).split('\n');
  const read = (metric: string) => {
    const series = `postbud_${metric}_total{topic="payment.captured",subscriber="${name}"} `;
    return Number(lines.find((line) => line.startsWith(series))?.slice(series.length));
  };
  return {
    delivered: read('deliveries_delivered'),
    failed: read('attempts_failed'),
    deadLettered: read('deliveries_dead_lettered'),
  };
}

const countersOfAll = async (bus: Bus) => await Promise.all(NAMES.map((name) => countersOf(bus, name)));

type Handle = (payment: number, attempt: number) => void;

const attached = (handle: Handle = () => undefined, name: Name = 'ledger', transactional = false) => {
  const handlers = {
    'payment.captured': (event: { payload: { amountMinor: number } }, { attempt }: { attempt: number }) =>
      handle(event.payload.amountMinor, attempt),
  };
  return transactional ? subscriber(name, handlers, { transactional: true }) : subscriber(name, handlers);
};

/** Delivers until nothing waits for another attempt. The longest wait between two is six hours. */
async function drainAll(bus: Bus, subscribers: readonly AttachedSubscriber[]): Promise<void> {
  for (let hour = 0; hour <= 48; hour += 6) await drain(bus.db, subscribers, { now: START + hour * HOUR });
}

async function deliveries(bus: Bus, where: string): Promise<string[]> {
  const found = await rows<{ id: string }>(
    bus.db,
    `select lane_id || '-' || position as id from deliveries join lanes on lanes.id = lane_id
     where ${where} order by position, lane_id`,
  );
  return found.map(({ id }) => id);
}

const replayAll = (bus: Bus, include: 'dead_letters' | 'all', now: number) =>
  replay(bus.db, { topic: 'payment.captured', since: '3650d', include }, 'kari', new Date(now));

describe('the counters of a subscription', () => {
  test('count every delivery, failed attempt and dead letter, but no wait that a handler asked for', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 5);
    await drainAll(bus, [
      attached((payment, attempt) => {
        if (payment === 2 && attempt < 3) fail();
        if (payment === 3) refuse();
        if (payment === 4 && attempt === 1) fail();
        if (payment === 5) fail();
      }),
      attached(() => undefined, 'bookings'),
    ]);
    expect(await countersOf(bus)).toEqual({ delivered: 3, failed: 2 + 1 + 1 + 5, deadLettered: 2 });
    expect(await countersOf(bus, 'bookings')).toEqual({ delivered: 5, failed: 0, deadLettered: 0 });
    expect(await countersOf(bus, 'accounting')).toEqual({ delivered: 0, failed: 0, deadLettered: 0 });
    await emitPayments(bus.db, 6, 6);
    await drain(bus.db, [
      attached(() => {
        throw new RetryAfter(MINUTE);
      }),
    ]);
    expect(await countersOf(bus)).toMatchObject({ failed: 9 });
  });

  test('keep counting a dead letter that was replayed, and count its new outcome', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drainAll(bus, [attached(refuse)]);
    await replayAll(bus, 'dead_letters', START + 2 * DAY);
    expect(await countersOf(bus)).toEqual({ delivered: 0, failed: 3, deadLettered: 3 });
    await drain(bus.db, [attached((payment) => payment === 2 && refuse())], { now: START + 3 * DAY });
    expect(await countersOf(bus)).toEqual({ delivered: 2, failed: 4, deadLettered: 4 });
    await replayAll(bus, 'all', START + 4 * DAY);
    expect(await countersOf(bus)).toEqual({ delivered: 2, failed: 4, deadLettered: 4 });
    await drain(bus.db, [attached()], { now: START + 4 * DAY });
    expect(await countersOf(bus)).toEqual({ delivered: 5, failed: 4, deadLettered: 4 });
  });

  test('count a delivery that an operator skips as a dead letter without an attempt', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [attached(fail)]);
    const [first] = await deliveries(bus, "subscriber = 'ledger'");
    await skip(bus.db, { deliveryId: first!, by: 'kari', reason: 'hopeless', now: new Date(START) });
    expect(await countersOf(bus)).toEqual({ delivered: 0, failed: 1, deadLettered: 1 });
  });

  test('count the deliveries that a transactional handler commits and its failures, but nothing that was rolled back', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 4);
    const transactional = attached(
      (payment, attempt) => {
        if (payment === 2 && attempt < 3) fail();
        if (payment === 3) refuse();
      },
      'ledger',
      true,
    );
    await drainAll(bus, [transactional]);
    expect(await countersOf(bus)).toEqual({ delivered: 3, failed: 3, deadLettered: 1 });
  });

  test('do not count a settlement that is repeated or comes too late', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, []);
    const token = randomUUID();
    const [lane] = await rows<{ id: string; first: number }>(
      bus.db,
      `update lanes set lease_token = $1::uuid from (select min(position) as first from deliveries) as placed
       where subscriber = 'ledger' returning id::text, first::int`,
      [token],
    );
    const { id, first } = lane!;
    const errorGroup = { key: 'k', kind: 'Error', message: 'no' };
    const failed = { position: first + 1, atMs: START, durationMs: 1, kind: 'Error', message: 'no' };
    const replays = 0;
    const outcome = outcomeOf(
      { id, token },
      {
        to: first + 1,
        keepUntilMs: START,
        delivered: [{ position: first, atMs: START, durationMs: 1, recordedAtMs: START, replays }],
        unfinished: [
          {
            ...failed,
            replays,
            isLapse: false,
            answer: null,
            halts: false,
            presence: null,
            isProbe: false,
            outcome: 'failed',
            nextAttemptAtMs: null,
            errorGroup,
          },
        ],
      },
    );
    for (const settled of [outcome, outcome, { ...outcome, token: randomUUID() }])
      await settle(bus.db, [settled]);
    expect(await countersOf(bus)).toEqual({ delivered: 1, failed: 1, deadLettered: 1 });
  });

  test('still count pruned deliveries, and do not change when their shards are merged', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    const all = [
      attached((payment) => payment === 2 && refuse()),
      ...NAMES.filter((name) => name !== 'ledger').map((name) => attached(() => undefined, name)),
    ];
    await drain(bus.db, all);
    // A shard that no backend has, so that there are two whoever comes next.
    await rows(bus.db, 'update backlog set shard = 64');
    await emitPayments(bus.db, 4, 5);
    await drain(bus.db, all);
    const before = await countersOfAll(bus);
    expect(before[1]).toEqual({ delivered: 4, failed: 1, deadLettered: 1 });
    const now = new Date(START + 365 * DAY);
    expect(await prune({ db: bus.db, until: Date.now() + MINUTE, now })).toMatchObject({ events: 4 });
    expect(await countersOfAll(bus)).toEqual(before);
    await rows(
      bus.db,
      `with gone as (delete from backlog where shard <> 64 returning *)
       update backlog as total set delivered_total = total.delivered_total + gone.delivered_total,
         pending = total.pending + gone.pending, failing = total.failing + gone.failing,
         dead_lettered = total.dead_lettered + gone.dead_lettered, failed_total = total.failed_total + gone.failed_total,
         dead_lettered_total = total.dead_lettered_total + gone.dead_lettered_total
       from gone where (gone.topic, gone.subscriber) = (total.topic, total.subscriber)`,
    );
    expect(await rows(bus.db, 'select distinct shard from backlog')).toEqual([{ shard: '64' }]);
    expect(await countersOfAll(bus)).toEqual(before);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

/** What the deliveries themselves remember: their state, and what their history says. */
async function rememberedOf(bus: Bus, name: Name): Promise<Counters> {
  const [row] = await rows<Counters>(
    bus.db,
    `with entry as (
       select entry ->> 'outcome' as outcome, lag(entry ->> 'outcome') over (partition by lane_id, position order by n) as before
       from deliveries join lanes on lanes.id = lane_id,
         jsonb_array_elements(attempt_log) with ordinality as logged(entry, n)
       where subscriber = $1
     ), now as (
       select state, count(*) as count from deliveries join lanes on lanes.id = lane_id where subscriber = $1 group by state
     )
     select (select count(*) from entry where outcome = 'delivered')::int
         + coalesce((select count from now where state = 'delivered'), 0)::int as delivered,
       (select count(*) from entry where outcome = 'failed')::int as failed,
       (select count(*) from entry where outcome = 'replayed' and before <> 'delivered')::int
         + coalesce((select count from now where state = 'dead_lettered'), 0)::int as "deadLettered"`,
    [name],
  );
  return row!;
}

// The last round's replay may have put one back in front of a failing one after the relays were through.
const HOLDS_ITS_LANE = `
  state = 'failing' and not exists (
    select from deliveries as earlier
    where (earlier.lane_id, earlier.lane_key) is not distinct from (deliveries.lane_id, deliveries.lane_key)
      and earlier.position < deliveries.position and earlier.state in ('pending', 'failing')
  )`;

test('the counters agree with the histories of the deliveries while relays and operators work side by side', async ({
  bus,
}) => {
  const other = await connect(bus.url);
  onTestFinished(() => other.close());
  // Multiplied by primes, so that payments, attempts and subscribers fail in patterns that have nothing in common.
  const fate =
    (salt: number): Handle =>
    (payment, attempt) => {
      const drawn = (payment * 7919 + attempt * 104_729 + salt * 1299) % 23;
      if (drawn < 3) fail();
      if (drawn === 3) refuse();
      if (drawn === 4 && attempt === 1 && payment % 2 === 0) throw new RetryAfter(MINUTE);
    };
  const all = NAMES.map((name, index) => attached(fate(index), name, index === 1));
  for (let key = 0; key < 8; key += 1)
    await emitPayments(bus.db, key * 25 + 1, key * 25 + 25, { orderingKey: `key ${key}` });
  for (let round = 0; round < 12; round += 1) {
    const now = START + round * 6 * HOUR;
    const [hopeless, ...others] = await deliveries(bus, HOLDS_ITS_LANE);
    const asked = { by: 'kari', reason: 'so', now: new Date(now) };
    if (hopeless !== undefined) await skip(bus.db, { ...asked, deliveryId: hopeless });
    // Some of these come too late: a relay has them in hand.
    const acted = others.slice(0, 6).map((deliveryId, index) =>
      (index % 2 === 0 ? skip : retryNow)(bus.db, { ...asked, deliveryId }).catch((error: unknown) => {
        if (!(error instanceof NotActedOn)) throw error;
      }),
    );
    const include = round === 8 ? 'all' : 'dead_letters';
    const again =
      round % 3 === 2 &&
      replay(
        other.db,
        { topic: 'payment.captured', since: '3650d', limit: 40, include },
        'kari',
        new Date(now),
      );
    await Promise.all([drain(bus.db, all, { now }), drain(other.db, all, { now }), ...acted, again]);
  }
  const remembered = await Promise.all(NAMES.map((name) => rememberedOf(bus, name)));
  expect(await countersOfAll(bus)).toEqual(remembered);
  for (const { delivered, failed, deadLettered } of remembered) {
    expect(delivered).toBeGreaterThan(80);
    expect(failed).toBeGreaterThan(20);
    expect(deadLettered).toBeGreaterThan(10);
  }
  const now = new Date(START + 365 * DAY);
  expect((await prune({ db: bus.db, until: Date.now() + MINUTE, now })).events).toBeGreaterThan(10);
  expect(await countersOfAll(bus)).toEqual(remembered);
  const { checked, findings } = await examine(bus.db);
  const exact = 'operator counts are exact';
  expect(checked).toContain(exact);
  // Not all promises: with the clock of the tests, which stands still, nothing begins after what came before it.
  expect(findings.filter(({ promise }) => promise === exact)).toEqual([]);
  expect(await contradictions(bus.db)).toEqual([]);
});

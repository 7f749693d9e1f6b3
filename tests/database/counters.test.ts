import { randomUUID } from 'node:crypto';

import { describe, expect, onTestFinished } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { prune } from '../../lib/bus/deliveries/prune.ts';
import { rollUpJournal } from '../../lib/bus/deliveries/roll-up.ts';
import type { UnfinishedAttempt } from '../../lib/bus/deliveries/settle.ts';
import { NotActedOn } from '../../lib/bus/deliveries/refusals.ts';
import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, rows, settle } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { outcomeOf } from '../support/lane.ts';
import { fail, refuse } from '../support/ledger.ts';
import { RECORDS, deliveryIdsOf } from '../support/records.ts';
import { holdLanes } from '../support/scenes.ts';

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
    const [first] = await deliveryIdsOf(bus.db);
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
    await holdLanes(bus.db, { subscriber: 'ledger', until: new Date(START + MINUTE) });
    const [held] = await rows<Parameters<typeof outcomeOf>[0]>(
      bus.db,
      `select id as lane, number::int, token, head::int from lane_heads where subscriber = 'ledger'`,
    );
    const first = held!.head + 1;
    const delivered = { position: first, atMs: START, durationMs: 1, recordedAtMs: START, replays: 0 };
    const dead: UnfinishedAttempt = {
      position: first + 1,
      atMs: START,
      durationMs: 1,
      replays: 0,
      isLapse: false,
      outcome: 'failed',
      nextAttemptAtMs: null,
      kind: 'Error',
      message: 'no',
      answer: null,
      errorGroup: { key: 'k', kind: 'Error', message: 'no' },
      halts: false,
      isAbsent: null,
    };
    const outcome = outcomeOf(held!, {
      head: first + 1,
      first,
      delivered: [delivered],
      exceptional: [{ position: first + 1, kind: 'dead', attempt: dead, replays: null }],
    });
    for (const settled of [outcome, outcome, { ...outcome, token: randomUUID() }])
      await settle(bus.db, [settled]);
    expect(await countersOf(bus)).toEqual({ delivered: 1, failed: 1, deadLettered: 1 });
  });

  test('still count what was pruned, also once the cron has read the journal', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    const all = [
      attached((payment) => payment === 2 && refuse()),
      ...NAMES.filter((name) => name !== 'ledger').map((name) => attached(() => undefined, name)),
    ];
    await drain(bus.db, all);
    await rollUpJournal(bus.db, Infinity, new Date(START + HOUR));
    await emitPayments(bus.db, 4, 5);
    await drain(bus.db, all);
    const before = await countersOfAll(bus);
    expect(before[1]).toEqual({ delivered: 4, failed: 1, deadLettered: 1 });
    const now = new Date(START + 365 * DAY);
    expect(await prune({ db: bus.db, until: Date.now() + MINUTE, now })).toMatchObject({ events: 4 });
    expect(await countersOfAll(bus)).toEqual(before);
    await rollUpJournal(bus.db, Infinity, now);
    await prune({ db: bus.db, until: Date.now() + MINUTE, now });
    expect(await countersOfAll(bus)).toEqual(before);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

/** What the deliveries themselves remember: their state, and what their history says. */
async function rememberedOf(bus: Bus, name: Name): Promise<Counters> {
  const [row] = await rows<Counters>(
    bus.db,
    `with entry as (
       select entry ->> 'outcome' as outcome, lag(entry ->> 'outcome') over (partition by lane, position order by n) as before
       from deliveries,
         jsonb_array_elements(attempt_log) with ordinality as logged(entry, n)
       where subscriber = $1
     ), now as (
       select state, count(*) as count from deliveries where subscriber = $1 group by state
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
    where (earlier.lane, earlier.ordering_key) = (record.lane, record.ordering_key)
      and earlier.position < record.position and earlier.state in ('pending', 'failing')
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
    const failing = await rows<{ id: string }>(
      bus.db,
      `select id from ${RECORDS} where ${HOLDS_ITS_LANE} order by position, lane`,
    );
    const [hopeless, ...others] = failing.map(({ id }) => id);
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
  expect(await contradictions(bus.db)).toEqual([]);
});

import { describe, expect } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { backlogAgeOf } from '../../lib/components/subscriber-health/backlog-ages.ts';
import { addHealth } from '../../lib/components/subscriber-health/add-health.ts';
import { BUCKETS, bucketOf } from '../../lib/components/subscriber-health/buckets.ts';
import { HealthRecorder } from '../../lib/components/subscriber-health/recorder.ts';
import { addDelivered, addUndelivered, emptyTally } from '../../lib/components/subscriber-health/tally.ts';
import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attachBatches, subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { forgetHours } from '../../lib/components/subscriber-health/forget-hours.ts';
import { sampleBacklog } from '../../lib/components/subscriber-health/sample-backlog.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR, MINUTE, SECOND, instantOf } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, WAITING, drain, emitPayments, numbers, openTransaction, rows } from '../support/bus.ts';
import { AWAITING_PLACE } from '../support/records.ts';
import { delayRetries } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { fail, ledger as ledgerThat, refuse } from '../support/ledger.ts';
import { relayInProcess } from '../support/relay-process.ts';

interface Row {
  readonly topic: string;
  readonly period: 'hour' | 'day' | 'total';
  readonly startsAt: number;
  readonly deliveredIn: readonly number[];
  readonly deliveredMs: number;
  readonly handledIn: readonly number[];
  readonly backlogAgeMs: number | null;
}

/** The rows of the ledger, in the order of their keys. */
async function healthOf(bus: Bus): Promise<Row[]> {
  return await rows<Row>(
    bus.db,
    `select topic, period, (extract(epoch from starts_at) * 1000)::float8 as "startsAt", to_json(delivered_in) as "deliveredIn",
       delivered_ms as "deliveredMs", to_json(handled_in) as "handledIn", backlog_age_ms as "backlogAgeMs"
     from subscriber_health where subscriber = 'ledger' order by topic, period, starts_at`,
  );
}

async function totalOf(bus: Bus): Promise<Row> {
  const total = (await healthOf(bus)).find(({ period }) => period === 'total');
  return total!;
}

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);

/** How many deliveries it has timed, and how many attempts. */
async function timedOf(bus: Bus): Promise<readonly [delivered: number, handled: number]> {
  const { deliveredIn, handledIn } = await totalOf(bus);
  return [sum(deliveredIn), sum(handledIn)];
}

const written = async ({ db }: Bus) => await HealthRecorder.of(db).write();

describe('the relay records', () => {
  test('the times of what it settled, in one row of the subscriber', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 4);
    await drain(bus.db, [ledger((payment) => payment === 2 && refuse())]);
    await written(bus);
    expect(await healthOf(bus)).toMatchObject([{ topic: '', period: 'total', startsAt: 0 }]);
    expect(await timedOf(bus)).toEqual([3, 4]);
  });

  test('the time from the event’s record to its delivery, with the waits between its attempts', async ({
    bus,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await rows(bus.db, 'update events set created_at = $1::timestamptz', [instantOf(START)]);
    await drain(bus.db, [ledger(fail)]);
    await drain(bus.db, [ledger()], { now: START + MINUTE + SECOND });
    await written(bus);
    const total = await totalOf(bus);
    expect(await timedOf(bus)).toEqual([1, 2]);
    expect(total.deliveredIn.findIndex((count) => count > 0)).toBe(bucketOf(MINUTE + SECOND));
  });

  test('of replays the times of handlers alone', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(refuse)]);
    const since = { topic: 'payment.captured', since: '1h', subscriber: 'ledger' };
    await replay(bus.db, since, 'kari', new Date(START + MINUTE));
    await drain(bus.db, [ledger((payment) => payment === 2 && refuse())], { now: START + MINUTE });
    await written(bus);
    expect(await timedOf(bus)).toEqual([0, 4]);
  });

  test('an attempt whose handler asked to wait as one', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1);
    const waits = () => {
      throw new RetryAfter(HOUR);
    };
    await drain(bus.db, [ledger(waits)]);
    await written(bus);
    expect(await timedOf(bus)).toEqual([0, 1]);
  });

  test('the deliveries of transactional handlers when their transaction has committed', async ({ bus }) => {
    await emitPayments(bus.db, 1, 40);
    const handle = ({ payload }: { readonly payload: { readonly amountMinor: number } }) =>
      payload.amountMinor === 40 ? refuse() : undefined;
    const options = { transactional: true } as const;
    await drain(bus.db, [subscriber('ledger', { 'payment.captured': handle }, options)]);
    await written(bus);
    expect(await timedOf(bus)).toEqual([39, 40]);
  });

  test('each delivery of a batch', async ({ bus }) => {
    await emitPayments(bus.db, 1, 150);
    await drain(bus.db, [attachBatches('ledger', { 'payment.captured': () => undefined })]);
    await written(bus);
    expect(await timedOf(bus)).toEqual([150, 150]);
  });

  test('nothing of a relay that was killed before it settled, and everything of the one that takes over', async ({
    bus,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 20);
    await relayInProcess({ url: bus.url, now: START, dieAt: 8 });
    await drain(bus.db, [ledger()], { now: START + 31 * SECOND });
    await drain(bus.db, [ledger()], { now: START + 32 * SECOND + MINUTE });
    await written(bus);
    // The relay that took over charged the lapsed lease to the first delivery; no handler ran for it.
    expect(await timedOf(bus)).toEqual([20, 20]);
  });
});

describe('writing', () => {
  const attempt = { atMs: START, durationMs: 10, recordedAtMs: START - 90, replays: 0 };
  const tallyOf = (subscriber: string) => {
    const tally = emptyTally(subscriber);
    for (let number = 0; number < 2; number += 1) addDelivered(tally, attempt);
    addUndelivered(tally, { durationMs: 10, isLapse: false });
    return tally;
  };

  test('adds up what eight processes write to the same rows at once', async ({ bus }) => {
    const names = ['ledger', ...numbers(1, 29).map((number) => `subscriber ${number}`)];
    const processes = await Promise.all(numbers(1, 8).map(async () => await connect(bus.url)));
    await Promise.all(
      processes.map(async ({ db }, process) => {
        // Each begins at another subscriber: the statement must sort them.
        const ordered = [...names.slice(process * 3), ...names.slice(0, process * 3)];
        for (let round = 0; round < 10; round += 1) await addHealth(db, ordered.map(tallyOf));
      }),
    );
    await Promise.all(processes.map(async ({ close }) => await close()));
    expect(await timedOf(bus)).toEqual([160, 240]);
    const total = await totalOf(bus);
    expect(total.deliveredMs).toBe(160 * 100);
    expect(total.deliveredIn).toHaveLength(BUCKETS);
    expect(total.deliveredIn[bucketOf(100)]).toBe(160);
    expect(total.handledIn[bucketOf(10)]).toBe(240);
  });

  test('loses at most what was gathered since the last write when its process is killed, and nothing when it closes', async ({
    bus,
  }) => {
    const recorded = { topic: 'payment.captured', subscriber: 'ledger', unfinished: [] };
    const killed = await connect(bus.url);
    const recorder = HealthRecorder.of(killed.db);
    recorder.count({ ...recorded, delivered: [attempt, attempt, attempt] }, Infinity);
    await recorder.write();
    recorder.count({ ...recorded, delivered: [attempt, attempt] }, Infinity);
    HealthRecorder.of(bus.db).count({ ...recorded, delivered: [attempt] }, Infinity);
    await written(bus);
    // What it would lose now.
    expect(await timedOf(bus)).toEqual([4, 4]);
    await killed.close();
    expect(await timedOf(bus)).toEqual([6, 6]);
  });

  test('that fails is made up for by the next one', async ({ bus, output }) => {
    await rows(bus.db, 'alter table subscriber_health rename to hidden');
    const recorder = HealthRecorder.of(bus.db);
    const recorded = { topic: 'payment.captured', subscriber: 'ledger', unfinished: [] };
    recorder.count({ ...recorded, delivered: [attempt] }, Infinity);
    await recorder.write();
    await rows(bus.db, 'alter table hidden rename to subscriber_health');
    expect(output.text()).toContain('the health of subscribers was not written');
    recorder.count({ ...recorded, delivered: [attempt] }, Infinity);
    await recorder.write();
    expect(await timedOf(bus)).toEqual([2, 2]);
    expect((await totalOf(bus)).deliveredIn[bucketOf(100)]).toBe(2);
  });

  test('that is under way is waited for by the next one, as by the close of the connection', async ({
    bus,
  }) => {
    const recorded = { topic: 'payment.captured', subscriber: 'ledger', unfinished: [] };
    const ending = await connect(bus.url);
    const recorder = HealthRecorder.of(ending.db);
    const lock = await openTransaction(bus.url);
    await lock.client.query('lock table subscriber_health');
    recorder.count({ ...recorded, delivered: [attempt] }, Infinity);
    const first = recorder.write();
    await expect.poll(async () => (await rows(bus.db, WAITING)).length).toBe(1);
    let isWritten = false;
    const second = recorder.write().then(() => (isWritten = true));
    await rows(bus.db, 'select 1');
    expect(isWritten).toBe(false);
    await lock.commit();
    await Promise.all([first, second]);
    expect(await timedOf(bus)).toEqual([1, 1]);
    await ending.close();
  });

  test('happens at once in a function whose life is about to end', async ({ bus }) => {
    const recorded = { topic: 'payment.captured', subscriber: 'ledger', unfinished: [] };
    const ending = await connect(bus.url);
    HealthRecorder.of(ending.db).count({ ...recorded, delivered: [attempt] }, 0);
    await expect.poll(async () => (await healthOf(bus)).length).toBe(1);
    await ending.close();
  });
});

describe('once a minute the cron', () => {
  const ageOf = async (bus: Bus) =>
    (await healthOf(bus)).filter(({ period }) => period === 'hour').map(({ backlogAgeMs }) => backlogAgeMs);

  test('records the age of the oldest unfinished delivery, and keeps the greatest of the hour', async ({
    bus,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 2);
    await rows(bus.db, 'update events set created_at = $1::timestamptz', [instantOf(START)]);
    await drain(bus.db, [ledger(fail)]);
    // Nothing is due while the first delivery waits for its retry, and yet the backlog ages.
    await sampleBacklog(bus.db, new Date(START + 40 * SECOND));
    expect(await ageOf(bus)).toEqual([40 * SECOND]);
    await drain(bus.db, [ledger()], { now: START + MINUTE });
    await sampleBacklog(bus.db, new Date(START + 2 * MINUTE));
    expect(await ageOf(bus)).toEqual([40 * SECOND]);
  });

  test('counts events that await their places, and a replayed delivery from its replay on', async ({
    bus,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 1);
    const [awaiting] = await rows<{ ms: number }>(
      bus.db,
      `select (extract(epoch from created_at) * 1000)::float8 as ms from ${AWAITING_PLACE}`,
    );
    // Milliseconds of a date are whole.
    await sampleBacklog(bus.db, new Date(Math.ceil(awaiting!.ms) + 3000));
    expect((await ageOf(bus))[0]).toBeGreaterThanOrEqual(3000);
    await drain(bus.db, [ledger(refuse)]);
    const since = { topic: 'payment.captured', since: '1h', subscriber: 'ledger' };
    await replay(bus.db, since, 'kari', new Date(START + 30 * MINUTE));
    await sampleBacklog(bus.db, new Date(START + 31 * MINUTE));
    expect((await ageOf(bus)).at(-1)).toBe(MINUTE);
  });

  test('finds what waits longest among more failing keys than it looks into, whenever its next attempt is', async ({
    bus,
  }) => {
    for (const key of numbers(1, 130)) await emitPayments(bus.db, key, key, { orderingKey: `key ${key}` });
    await rows(
      bus.db,
      `update events set created_at = $1::timestamptz + (payload ->> 'amountMinor')::int * interval '1 second'`,
      [instantOf(START - HOUR)],
    );
    await drain(bus.db, [ledgerThat(fail)]);
    // The oldest has failed most often, so that it waits longest for its next attempt.
    await delayRetries(bus.db, '6 hours', `ordering_key = 'key 1'`);
    await sampleBacklog(bus.db, new Date(START));
    expect(await ageOf(bus)).toEqual([HOUR - SECOND]);
    expect(await backlogAgeOf(bus.db, 'ledger', new Date(START))).toBe(HOUR - SECOND);
    await drain(bus.db, [ledgerThat()], { now: START + 7 * HOUR });
    expect(await backlogAgeOf(bus.db, 'ledger', new Date(START + 7 * HOUR))).toBeNull();
  });

  test('forgets hours that began more than a day ago, and no totals', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    for (const hour of numbers(0, 4)) await sampleBacklog(bus.db, new Date(START + hour * HOUR));
    await addHealth(bus.db, [emptyTally('ledger')]);
    const before = await healthOf(bus);
    expect(before).toHaveLength(5 + 1);

    await forgetHours(bus.db, new Date(START + DAY));
    expect(await healthOf(bus)).toEqual(before);

    const now = new Date(START + 3 * HOUR + DAY + 1);
    await Promise.all(numbers(1, 4).map(async () => await forgetHours(bus.db, now)));
    expect(await healthOf(bus)).toEqual(
      before.filter(({ period, startsAt }) => period === 'total' || startsAt > START + 3 * HOUR),
    );
  });
});

import { describe, expect } from 'vitest';

import { findFailures } from '../../lib/components/incidents/failures.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { sampleBacklog } from '../../lib/components/subscriber-health/sample-backlog.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { readEvent } from '../../lib/console/event/read.ts';
import { readIncident } from '../../lib/console/incidents/read.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import { HOUR, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drainLive, emitPayments, rows } from '../support/bus.ts';
import { changeDeliveries, delayRetries, freeLanes, holdLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { fail, ledger } from '../support/ledger.ts';

const A_MINUTE_AGO = -MINUTE;
const LEDGER = { topic: 'payment.captured', subscriber: 'ledger' };

/** Has a relay hold the lanes of the ledger until then. */
async function hold(bus: Bus, untilMs = MINUTE): Promise<void> {
  await freeLanes(bus.db);
  await holdLanes(bus.db, { subscriber: 'ledger', until: new Date(Date.now() + untilMs) });
}

/** Of one event that has no key, and of one that has. */
async function emitBoth(bus: Bus): Promise<string[]> {
  return [
    ...(await emitPayments(bus.db, 1, 1)),
    ...(await emitPayments(bus.db, 2, 2, { orderingKey: 'key 7' })),
  ];
}

describe('a lane that a relay holds', () => {
  test('is no contradiction, and what is in it is on its way until the lease ends', async ({ bus }) => {
    const ids = await emitBoth(bus);
    await drainLive(bus.db, []);
    await hold(bus);
    const whys = async () =>
      await Promise.all(
        ids.map(async (id) => {
          const view = await readEvent(bus.db, id, { attached: [ledger()] });
          return view!.deliveries.find(({ subscriber }) => subscriber === 'ledger')!.why!.code;
        }),
      );
    expect(await whys()).toEqual(['leased', 'leased']);
    expect(await contradictions(bus.db)).toEqual([]);
    expect((await examine(bus.db)).findings).toEqual([]);
    await hold(bus, A_MINUTE_AGO);
    expect(await whys()).toEqual(['due', 'due']);
  });

  test('counts for the age of what is due, of the backlog and of what waits elsewhere', async ({ bus }) => {
    await emitBoth(bus);
    await drainLive(bus.db, []);
    await rows(bus.db, "update events set created_at = created_at - interval '2 minutes'");
    await hold(bus);
    const { topics } = await readOverview(bus.db, [ledger()]);
    const topic = topics.find((one) => one.topic === LEDGER.topic)!;
    expect(topic.oldestDueAgeSeconds).toBeGreaterThanOrEqual(120);
    await sampleBacklog(bus.db);
    const [sampled] = await rows<{ ms: number }>(
      bus.db,
      "select backlog_age_ms as ms from subscriber_health where subscriber = 'ledger' and topic = ''",
    );
    expect(sampled!.ms).toBeGreaterThanOrEqual(2 * MINUTE);
  });

  test('keeps its incident open while its next attempt is under way', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drainLive(bus.db, [ledger(fail)]);
    await delayRetries(bus.db, '-1 hour');
    await hold(bus);
    expect(await bus.db.transaction((tx) => findFailures(tx))).toMatchObject([
      { ...LEDGER, lanes: 1, waiting: 3 },
    ]);
    await watchIncidents(bus.db);
    const [incident] = await rows<{ id: string }>(bus.db, 'select id::text from incidents');
    const { lanes, generatedAt } = (await readIncident(bus.db, incident!.id))!;
    expect(lanes).toHaveLength(1);
    expect(lanes[0]!.nextAttemptAt! <= generatedAt).toBe(true);
  });

  test('counts among the lanes that an outage holds', async ({ bus }) => {
    await emitBoth(bus);
    await drainLive(bus.db, []);
    await rows(
      bus.db,
      `insert into outages (subscriber, kind, message, opened_at, next_probe_at)
       values ('ledger', 'unreachable', '', now(), now())`,
    );
    await hold(bus);
    expect(await bus.db.transaction((tx) => findFailures(tx))).toMatchObject([
      { kind: 'unreachable', lanes: 2, waiting: 2 },
    ]);
  });

  test('keeps the incident of a component that cannot read its next event', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drainLive(bus.db, [ledger(fail)]);
    await changeDeliveries(
      bus.db,
      `attempt_log = jsonb_build_array(jsonb_build_object('outcome', 'waited',
         'kind', 'newer_version', 'at', now() - interval '2 minutes'))`,
    );
    await hold(bus);
    const found = await bus.db.transaction((tx) => findFailures(tx));
    expect(found).toContainEqual(expect.objectContaining({ subscriber: 'ledger', kind: 'newer_version' }));
  });

  test('is found by the doctor when the lease ends later than any lease can', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drainLive(bus.db, []);
    await hold(bus, 2 * HOUR);
    expect((await examine(bus.db)).findings).toMatchObject([
      { promise: expect.stringContaining('no time lies ahead'), count: 1 },
    ]);
  });
});

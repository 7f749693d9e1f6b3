import { describe, expect, inject, test } from 'vitest';

import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { readIncident } from '../../lib/console/incidents/detail.ts';
import { incidentQuery, readIncidents } from '../../lib/console/incidents/read.ts';
import { readTopic } from '../../lib/console/lanes/read.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import { openBus, rows } from '../support/bus.ts';
import { fillKeysInTrouble } from '../support/keys-in-trouble.ts';
import type { Trouble } from '../support/keys-in-trouble.ts';
import { explainAll, watch } from '../support/plans.ts';

const TOPIC = 'user.profile.updated';
const subscribers = [subscriber('notifications', { [TOPIC]: () => undefined })];

/** So many that the planner has reason to read the lanes in the order of their index, and to stop early. */
const KEYS = 40_000;

/** Each node of a plan counts its rows. Of 2,000 lanes, the largest number that is read, each passes some 30 nodes. */
const MOST_ROWS = 100_000;

/** How many rows the plans of each first screen handle beside so many keys in trouble, and what the screens say. */
async function screens(keys: number, trouble: Trouble) {
  const bus = await openBus(inject('postgresUrl'));
  await fillKeysInTrouble(bus.db, keys, trouble);
  await explainAll(bus);
  // Looking into one lane costs the same whatever the number of lanes, and to explain it thousands of times takes long.
  const [named] = await rows<{ name: string }>(bus.db, 'select current_database() as name');
  await rows(bus.db, `alter database ${named!.name} set auto_explain.log_nested_statements = off`);
  const { db, takeWork, close } = await watch(bus.url);
  const rowsOf = async <Result>(read: () => Promise<Result>) => {
    takeWork();
    const result = await read();
    return [[...takeWork().values()].reduce((sum, work) => sum + work.rows, 0), result] as const;
  };
  const [watched] = await rowsOf(() => watchIncidents(db));
  const { items } = await readIncidents(db, incidentQuery.parse({}));
  const [overview, { topics }] = await rowsOf(() => readOverview(db, subscribers));
  const [topic] = await rowsOf(() => readTopic(db, subscribers, TOPIC));
  const [incident] = await rowsOf(() => readIncident(db, items[0]!.incidentId));
  const [metrics] = await rowsOf(() => readMetrics(db, subscribers));
  await close();
  await bus.close();
  const shown = topics.find((one) => one.topic === TOPIC)!.subscribers.find((one) => one.attached)!;
  return { work: { watched, overview, topic, incident, metrics }, shown, items };
}

describe('beside many keys in trouble', () => {
  test.for<Trouble>(['waiting', 'due', 'halted'])(
    'of which each is %s, the first screens do not read each lane, and their counts are exact or say “2,000+”',
    async (trouble) => {
      const { work, shown, items } = await screens(KEYS, trouble);
      for (const [screen, handled] of Object.entries(work))
        expect([screen, handled < MOST_ROWS, handled]).toEqual([screen, true, handled]);
      const isHalted = trouble === 'halted';
      expect(shown).toMatchObject({
        pending: KEYS,
        failing: isHalted ? 0 : KEYS,
        deadLettered: isHalted ? KEYS : 0,
        haltedLanes: isHalted ? 2000 : 0,
        nextRetryAt: trouble === 'waiting' ? expect.any(String) : null,
      });
      if (trouble === 'due') expect(shown.oldestDueAgeSeconds).toBeGreaterThan(500);
      expect(items.map(({ sentence }) => sentence)).toEqual([
        expect.stringContaining(`2,000+ lanes are ${isHalted ? 'halted' : 'blocked'}`),
      ]);
    },
  );
});

describe('beside many delivered events and many incidents', () => {
  test('the incidents are read by their own rows: those of other events and subscriptions are left alone', async () => {
    const [keys, events, incidents, subscriptions] = [1000, 60_000, 60, 300];
    const bus = await openBus(inject('postgresUrl'));
    await fillKeysInTrouble(bus.db, keys, 'waiting');
    for (const text of [
      `insert into events (id, topic, payload, version, created_at, ordering_key, producer, correlation_id, subscribers,
         open, failing, dead_lettered)
       select uuidv7(), 'seen', '{}', 1, now(), '', 'bookings', '', '{}', 0, 0, 0 from generate_series(1, ${events})`,
      `insert into backlog (topic, subscriber, shard, pending, failing, dead_lettered)
       select 'topic ' || number, 'subscriber ' || number % 20, shard, 0, 0, 0
       from generate_series(1, ${subscriptions}) as number, generate_series(1, 64) as shard`,
      `insert into error_groups (key, topic, subscriber, kind, message, dead_lettered)
       select 'group ' || number, 'topic ' || number, 'subscriber ' || number % 20, 'http_422', '', 1
       from generate_series(1, ${incidents}) as number`,
      `insert into incidents (id, topic, subscriber, kind, error_group, message, state, change, opened_at, changed_at,
         blocked_lanes, waiting, owed)
       select gen_random_uuid(), topic, subscriber, kind, key, message, 'owed', 'opened', now(), now(), 0, 0, 1
       from error_groups`,
      'vacuum analyze events, backlog, error_groups, incidents',
    ])
      await rows(bus.db, text);
    await explainAll(bus);
    const { db, takeWork, close } = await watch(bus.url);
    const { items } = await readIncidents(db, incidentQuery.parse({}));
    const handled = [...takeWork().values()].reduce((sum, work) => sum + work.rows, 0);
    await close();
    await bus.close();
    expect(items).toHaveLength(incidents + 1);
    // The counts of all subscriptions twice, and some ten nodes for each lane.
    expect(handled).toBeLessThan(2 * 2 * 64 * subscriptions + 15 * keys);
  });
});

import * as z from 'zod';

import type { Database } from '../../db/connect.ts';
import { run } from '../../db/statement.ts';
import { MINUTE } from '../../time.ts';
import * as shape from '../shapes.ts';

export const examination = z
  .object({
    checked: z.array(z.string()).meta({ description: 'The promises that were checked.' }),
    findings: z.array(
      z.object({
        promise: z.string(),
        what: z.string(),
        count: shape.count,
        examples: z.array(z.string()).max(5).meta({ description: 'Ids.' }),
      }),
    ),
    events: shape.count.meta({ description: 'How many of the newest events were checked.' }),
  })
  .meta({
    id: 'Examination',
    description: 'The result of checking that the bus kept its promises.',
  });

export type Examination = z.output<typeof examination>;

/**
 * Checks that the bus kept its promises: nothing lost, lanes in order, states that agree with each other.
 *
 * Reads only, one snapshot for each check, and so much at most: the newest events with their deliveries, and counts.
 *
 * @param newest how many events to look at.
 * @param longestMs what takes a check longer is cancelled.
 * @throws what the database throws.
 */
export async function examine(db: Database, newest = 50_000, longestMs = MINUTE): Promise<Examination> {
  const findings: Examination['findings'] = [];
  let events = 0;
  await db.transaction(
    async (tx) => {
      await run(tx, {
        text: "select set_config('statement_timeout', $1::text, true)",
        values: [`${longestMs}ms`],
      });
      const [seen] = await run<{ count: number }>(tx, {
        text: `select count(*)::int as count from (select from events limit $1::int) as seen`,
        values: [newest],
      });
      events = seen!.count;
      for (const { promise, what, text } of CHECKS) {
        const [row] = await run<{ count: number; examples: string[] | null }>(tx, {
          text: `with ${COMMON}, wrong as (${text})
            select count(*)::int as count, (array_agg(example))[1:5] as examples from wrong`,
          values: [newest],
        });
        if (row!.count > 0)
          findings.push({ promise, what, count: row!.count, examples: row!.examples ?? [] });
      }
    },
    { accessMode: 'read only' },
  );
  return { checked: CHECKS.map(({ promise }) => promise), findings, events };
}

// Deliveries of the newest events are found by the range of their ids, which rise with time.
const COMMON = `
  event as materialized (
    select * from events order by id desc limit $1::int
  ),
  delivery as materialized (
    select deliveries.*, home.topic as lane_topic, home.subscriber, lane.head, lane.due_at
    from deliveries join lanes as home on home.id = lane_id
      left join lanes as of_key on of_key.home_id = home.id and of_key.held_key = lane_key
      join lanes as lane on lane.id = coalesce(of_key.id, home.id)
    where event_id >= (select id from event order by id limit 1)
  ),
  truth as materialized (
    select event_id, count(*) as total, count(*) filter (where state in ('pending', 'failing')) as open,
      count(*) filter (where state = 'failing') as failing,
      count(*) filter (where state = 'dead_lettered') as dead_lettered, max(state) as worst,
      array_agg(subscriber) as subscribers
    from delivery group by event_id
  )`;

interface Check {
  readonly promise: string;
  readonly what: string;
  /** Selects `example`, an id in a text, of each that is wrong. */
  readonly text: string;
}

const CHECKS: readonly Check[] = [
  {
    promise: 'every event waits for fan-out or has been fanned out',
    what: 'neither wait for fan-out nor have deliveries, or both',
    text: `select event.id::text as example from event left join truth on event_id = event.id
      where (event_id is null) = not exists (select from awaiting_fan_out where event_id = event.id)`,
  },
  {
    promise: 'every event has a delivery for each subscriber that it was emitted for',
    what: 'lack a delivery for a subscriber that they were emitted for, or have one for another',
    // Those of releases up to 0.1 do not say whom they are for.
    text: `select event.id::text as example from event join truth on event_id = event.id
      where not (event.subscribers @> truth.subscribers and truth.subscribers @> event.subscribers)`,
  },
  {
    promise: 'no event has two deliveries for one subscriber',
    what: 'have two deliveries for one subscriber',
    text: `select event_id::text as example from delivery group by event_id, subscriber having count(*) > 1`,
  },
  {
    promise: 'every delivery has its event',
    what: 'are deliveries without their event',
    text: `select lane_id || '-' || position as example from delivery
      where not exists (select from events where id = event_id)`,
  },
  {
    promise: 'an event’s state and counters are what its deliveries say',
    what: 'have a state or counters that their deliveries contradict',
    text: `select event.id::text as example from event join truth on event_id = event.id
      where (event.open, event.failing, event.dead_lettered, event.state)
        is distinct from (truth.open, truth.failing, truth.dead_lettered, worst)`,
  },
  {
    promise: 'lanes are in the order of creation',
    what: 'stand in a lane before an event that was recorded earlier',
    text: `select example from (
        select lane_id || '-' || position as example, (created_at, seq) <
          lag((created_at, seq)) over (partition by lane_id order by position) as is_early
        from delivery join event on event.id = event_id
      ) as placed where is_early`,
  },
  {
    promise: 'nothing was begun before what stands before it in its lane had ended',
    what: 'were begun before what stands before them in their lane had ended',
    // A replay puts an older one after newer ones, and what it had then is over.
    text: `select example from (
        select lane_id || '-' || position as example, state = 'delivered' and replays = 0
          and attempted_at + interval '1 millisecond' < lag(coalesce(delivered_at, dead_lettered_at))
            over (partition by lane_id, lane_key order by position)
          and lag(replays) over (partition by lane_id, lane_key order by position) = 0 as is_early
        from delivery
      ) as placed where is_early`,
  },
  {
    promise: 'no lane has passed over a delivery, or sleeps on one',
    what: 'are unfinished, and their lane has passed over them or is never looked at again',
    text: `select lane_id || '-' || position as example from delivery
      where state in ('pending', 'failing') and (position <= head or due_at is null)`,
  },
  {
    promise: 'the counts that operators see are exact',
    what: 'are counts that operators see and that are not so',
    text: `select topic || ' ' || subscriber as example from (
        select topic, subscriber, count(*) filter (where state = 'pending') as pending,
          count(*) filter (where state = 'failing') as failing
        from lanes, lateral (
          select state from deliveries
          where lane_id = lanes.id and state in ('pending', 'failing')
            and position > least(head, (select min(own.head) from lanes as own where own.home_id = lanes.id))
        ) as open where home_id is null group by topic, subscriber
      ) as counted full join (
        select topic, subscriber, sum(pending) as pending, sum(failing) as failing from backlog
        where subscriber <> '' group by topic, subscriber having sum(pending) <> 0 or sum(failing) <> 0
      ) as kept using (topic, subscriber)
      where (counted.pending, counted.failing) is distinct from (kept.pending, kept.failing)
      union all
      select coalesce(key, error_group) from error_groups full join (
        select error_group, count(*) as count from deliveries where error_group is not null group by error_group
      ) as counted on error_group = key
      where coalesce(count, 0) <> coalesce(dead_lettered, 0)`,
  },
];

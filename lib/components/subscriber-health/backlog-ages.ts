import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import type { Database } from '../../platform/db/connect.ts';
import { leasedHomeLanes } from '../../platform/db/leased-home-lanes.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

/** How many lanes of a subscription are looked into: those that are least far, and so have waited longest. */
const LANES_LOOKED_AT = 100;

/**
 * Reads how long the delivery of a subscriber that waits longest has waited.
 *
 * @param now overrides the database's clock in tests.
 * @returns milliseconds; null where nothing waits.
 */
export async function backlogAgeOf(db: Database, subscriber: string, now?: Date): Promise<number | null> {
  const [row] = await run<{ ms: number }>(driverOf(db), {
    text: `with ${BACKLOG_AGES} select ms from age where topic = ''`,
    values: [now?.toISOString() ?? null, subscriber],
  });
  return row?.ms ?? null;
}

/**
 * The parts of a statement that find how old the backlogs are: `age (subscriber, topic, ms)`, with an empty topic for the
 * subscriber's oldest of all topics, behind the `clock`. `$1` overrides the clock, `$2` names the only subscriber.
 *
 * A delivery ages from the event's record, or from its replay, also while it waits for a retry, or for a paused or an
 * unattached subscriber.
 */
export const BACKLOG_AGES = `
  clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  ),
  waiting as materialized (
    select topic, subscriber from backlog
    where subscriber <> '' and topic <> '${SMOKE_TEST.topic}' and ($2::text is null or subscriber = $2::text)
    group by topic, subscriber having sum(pending) + sum(failing) > 0
  ),
  oldest_of_lane as (
    select lane.topic, lane.subscriber, greatest(created_at, replayed_at) as since
    from waiting, lateral (
      (
        -- Not by when they are due: the longer a key has failed, the longer it waits for its next attempt.
        select * from lanes
        where lanes.topic = waiting.topic and lanes.subscriber = waiting.subscriber and due_at is not null
        order by head, id limit ${LANES_LOOKED_AT}
      )
      union all
      (${leasedHomeLanes('waiting.topic', 'waiting.subscriber')}
      )
    ) as lane, lateral (
      select created_at, replayed_at
      -- The limits keep the planner from joining whole tables: it expects far more lanes than there are.
      from postbud_next_2(lane.id, home_id, slot, held_key, lane.head, 1) as next, lateral (
        select replayed_at from deliveries
        where lane_id = coalesce(home_id, lane.id) and deliveries.position = next.position limit 1
      ) as put_back, lateral (select created_at from events where id = next.event_id limit 1) as event
    ) as first
  ),
  awaiting as (
    select topic, subscriber, oldest as since
    from (
      select topic, subscribers, min(created_at) as oldest from awaiting_fan_out
      where topic <> '${SMOKE_TEST.topic}' group by topic, subscribers
    ) as addressed_alike, unnest(subscribers) as subscriber
    where $2::text is null or subscriber = $2::text
  ),
  age as (
    select subscriber, coalesce(topic, '') as topic,
      greatest(0, extract(epoch from clock.now - min(since)) * 1000)::float8 as ms
    from clock, (select * from oldest_of_lane union all select * from awaiting) as oldest
    group by clock.now, grouping sets ((subscriber, topic), (subscriber))
  )`;

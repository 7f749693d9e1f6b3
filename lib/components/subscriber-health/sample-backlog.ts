import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import type { Database } from '../../platform/db/connect.ts';
import { leasedHomeLanes } from '../../platform/db/leased-home-lanes.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';

/** How many lanes of a subscription are examined, those due longest first; as many as the overview examines. */
const LANES_LOOKED_AT = 100;

/**
 * Records how old the oldest unfinished delivery of each subscription is, as the age of this hour's backlog if none was
 * older.
 *
 * It counts from the event's record, or from the replay, also while the delivery waits for a retry, for a paused or an
 * unattached subscriber: a backlog ages until it is delivered.
 *
 * @param now overrides the database's clock in tests.
 */
export async function sampleBacklog(db: Database, now?: Date): Promise<void> {
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    await run(tx, { text: SAMPLE_BACKLOG, values: [now?.toISOString() ?? null] });
  });
}

// An empty topic: the subscriber's oldest of all topics. Sorted by the primary key, like every statement on this table.
const SAMPLE_BACKLOG = `
  with clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  ),
  waiting as materialized (
    select topic, subscriber from backlog where subscriber <> '' and topic <> '${SMOKE_TEST.topic}'
    group by topic, subscriber having sum(pending) + sum(failing) > 0
  ),
  oldest_of_lane as (
    select lane.topic, lane.subscriber, greatest(created_at, replayed_at) as since
    from waiting, lateral (
      (
        select * from lanes
        where lanes.topic = waiting.topic and lanes.subscriber = waiting.subscriber and due_at < 'infinity'
        order by due_at limit ${LANES_LOOKED_AT}
      )
      union all
      (
        -- Those at their front come last in the index, and have often waited longest.
        select * from lanes
        where lanes.topic = waiting.topic and lanes.subscriber = waiting.subscriber and due_at = 'infinity'
        order by id limit ${LANES_LOOKED_AT}
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
  ),
  age as (
    select subscriber, coalesce(topic, '') as topic,
      greatest(0, extract(epoch from clock.now - min(since)) * 1000)::float8 as ms
    from clock, (select * from oldest_of_lane union all select * from awaiting) as oldest
    group by clock.now, grouping sets ((subscriber, topic), (subscriber))
  )
  insert into subscriber_health as known (subscriber, topic, period, starts_at, backlog_age_ms)
  select subscriber, topic, 'hour', date_trunc('hour', clock.now, 'UTC'), ms from clock, age
  order by subscriber, topic
  on conflict (subscriber, topic, period, starts_at)
    do update set backlog_age_ms = greatest(known.backlog_age_ms, excluded.backlog_age_ms)`;

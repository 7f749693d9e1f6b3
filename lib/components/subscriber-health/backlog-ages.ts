import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

/** Open exceptions of a lane that are looked into: those of the oldest events, and failing ones. */
const EXCEPTIONS_LOOKED_AT = 100;

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
 * Finds the unfinished deliveries of a lane among which the oldest is: `(created_at, replayed_at)` of each.
 *
 * @param lane the alias of its row of `lane_heads`.
 */
const oldestIn = (lane: string) => `lateral (
      select created_at, replayed_at
      from (
        (
          select event_id, replayed_at from exceptions
          where lane = ${lane}.id and is_open and state in ('pending', 'failing')
          -- Not in the order of the primary key, which has those that are over, too.
          order by position + 0 limit ${EXCEPTIONS_LOOKED_AT}
        )
        union all
        (
          select event_id, replayed_at from exceptions
          where lane = ${lane}.id and is_open and state = 'failing'
          order by exceptions.lane, state, ordering_key, position limit ${EXCEPTIONS_LOOKED_AT}
        )
        union all
        select event_id, null from log
        where log.stream = ${lane}.stream
          and position = postbud_find_next_1(${lane}.stream, ${lane}.subscriber, ${lane}.head, ${lane}.tail)
      ) as unfinished, lateral (
        -- The limit keeps the planner from joining whole tables.
        select created_at from events where id = event_id limit 1
      ) as event
    )`;

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
  lane as materialized (
    select * from lane_heads where topic <> '${SMOKE_TEST.topic}' and ($2::text is null or subscriber = $2::text)
  ),
  oldest_of_lane as (
    select lane.topic, lane.subscriber, greatest(created_at, replayed_at) as since
    from lane, ${oldestIn('lane')} as oldest
  ),
  unplaced as (
    select topic, subscriber, oldest as since
    from (
      select topic, subscribers, min(created_at) as oldest from awaiting
      where topic <> '${SMOKE_TEST.topic}' group by topic, subscribers
    ) as addressed_alike, unnest(subscribers) as subscriber
    where $2::text is null or subscriber = $2::text
  ),
  age as (
    select subscriber, coalesce(topic, '') as topic,
      greatest(0, extract(epoch from clock.now - min(since)) * 1000)::float8 as ms
    from clock, (select * from oldest_of_lane union all select * from unplaced) as oldest
    group by clock.now, grouping sets ((subscriber, topic), (subscriber))
  )`;

import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

/** Open exceptions of a lane that are looked at: the first ones. What was replayed waits since then. */
const LOOKED_AT = 20;

/**
 * Reads how long the delivery of a subscriber that waits longest has waited.
 *
 * @param now overrides the database's clock in tests.
 * @returns milliseconds; null where nothing waits.
 */
export async function backlogAgeOf(db: Database, subscriber: string, now?: Date): Promise<number | null> {
  const [row] = await run<{ ms: number }>(driverOf(db), {
    text: `with ${BACKLOG_AGES} select ms from age`,
    values: [now?.toISOString() ?? null, subscriber],
  });
  return row?.ms ?? null;
}

/**
 * The parts of a statement that find how old the backlogs are: `age (subscriber, ms)`, behind the `clock`. `$1` overrides the
 * clock, `$2` names the only subscriber.
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
    select lane.subscriber, least(created_at, replayed_at) as since
    from lane, lateral (
        select min(exceptional.position) filter (where replayed_at is null) as position, min(replayed_at) as replayed_at
        from (
          -- Of an index alone, and not in the order of the primary key, which has those that are over, too.
          select position from exceptions where lane = lane.id and is_open order by position + 0 limit ${LOOKED_AT}
        ) as first join exceptions as exceptional on exceptional.position = first.position
        where exceptional.lane = lane.id and state in ('pending', 'failing')
      ) as waiting left join lateral (
        -- Places are in the order of records, but for the seconds that a transaction takes.
        select created_at from log join events on events.id = log.event_id
        where log.stream = lane.stream
          and log.position = least(waiting.position, postbud_find_next_1(lane.stream, lane.subscriber, lane.head, lane.tail))
        limit 1
      ) as event on true
    where least(created_at, replayed_at) is not null
  ),
  unplaced as (
    select subscriber, oldest as since
    from (
      select subscribers, min(created_at) as oldest from awaiting where topic <> '${SMOKE_TEST.topic}' group by subscribers
    ) as addressed_alike, unnest(subscribers) as subscriber
    where $2::text is null or subscriber = $2::text
  ),
  age as (
    select subscriber, greatest(0, extract(epoch from clock.now - min(since)) * 1000)::float8 as ms
    from clock, (select * from oldest_of_lane union all select * from unplaced) as oldest
    group by clock.now, subscriber
  )`;

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { atPosition, positionOf } from './place.ts';
import type { Places } from './place.ts';
import type { EventsQuery } from './query.ts';

type Filters = Pick<EventsQuery, 'topic' | 'subscriber'>;

/** The events of a topic, or for a subscriber, in any state. */
export const eventsInLanes = (db: Database, filters: Filters) => inLanes(db, filters, ALL);

/** The events with a delivery that is neither delivered nor dead-lettered. */
export const openEvents = (db: Database, filters: Filters) => inLanes(db, filters, OPEN);

/** The events with a delivery that waits for a retry. */
export const failingEvents = (db: Database, filters: Filters) => inLanes(db, filters, FAILING);

/** The events with a dead letter. */
export const deadLetteredEvents = (db: Database, filters: Filters) => inLanes(db, filters, DEAD_LETTERED);

function inLanes(db: Database, { topic, subscriber }: Filters, text: string): Places {
  return async (after, size) => {
    const waited = after?.in === 'positions' ? after.waited : undefined;
    const shown = waited ? [waited.at, waited.seq, waited.next ?? 0] : [null, null, null];
    const found = await run<{ id: string; position: number }>(driverOf(db), {
      text,
      values: [topic ?? null, subscriber ?? null, positionOf(after), size, ...shown],
    });
    return found
      .toSorted((one, other) => other.position - one.position)
      .map(({ id, position }) => atPosition(id, position, waited));
  };
}

// Of the events that waited when the list began, those that it has shown may have been fanned out since.
const IS_BEHIND = `($5::text is null or position < $7::float8::bigint or (
              select (created_at, seq) < ($5::text::timestamptz, $6::text::bigint) from events where id = event_id
            ))`;

const IS_MATCHING = `($1::text is null or lanes.topic = $1::text)
      and ($2::text is null or lanes.subscriber = $2::text)`;

/**
 * Goes through the deliveries of some lanes, newest first. Positions are looked at in ranges, each wider than the one
 * before it, until there are enough events: else each of thousands of lanes would give as many as are asked for.
 *
 * @param lanes selects `id`, `key`, `head` and `tail` of lanes.
 * @param isAsked what a delivery must be.
 */
const inRanges = (lanes: string, isAsked: string) => `
  with lane as materialized (
    ${lanes}
  ),
  newest as materialized (
    select least(max(tail), $3::float8::bigint - 1) as position from lane
  )
  select found.position::float8 as position, found.event_id::text as id
  from newest,
    (values (0, 4095), (4096, 65535), (65536, 1048575), (1048576, 9007199254740991)) as range(nearest, farthest),
    lateral (
      select distinct on (delivery.position) delivery.position, delivery.event_id
      from lane, lateral (
        (
          select position, event_id from deliveries
          where lane.key is null and lane_id = lane.id and position > lane.head
            and position >= newest.position - range.farthest and position <= newest.position - range.nearest ${isAsked}
            and ${IS_BEHIND}
          order by position desc limit $4::int
        )
        union all
        (
          select position, event_id from deliveries
          where lane_id = lane.id and lane_key = lane.key and position > lane.head
            and position >= newest.position - range.farthest and position <= newest.position - range.nearest ${isAsked}
            and ${IS_BEHIND}
          order by lane_key desc, position desc limit $4::int
        )
      ) as delivery
      where lane.tail >= newest.position - range.farthest
      order by delivery.position desc limit $4::int
    ) as found
  limit $4::int`;

// An event has the same position in the lanes of all its subscribers. Lanes of keys in trouble have no deliveries.
const ALL = inRanges(
  `select id, null::text as key, 0::bigint as head, tail from lanes where home_id is null and ${IS_MATCHING}`,
  '',
);

// The deliveries of a key in trouble are in its home, and its own lane's tail stays behind. "coalesce" keeps the planner
// from taking the open ones for few.
const OPEN = inRanges(
  `select coalesce(lanes.home_id, lanes.id) as id, nullif(lanes.held_key, '') as key, lanes.head,
      coalesce(home.tail, lanes.tail) as tail
    from lanes left join lanes as home on home.id = lanes.home_id
    where (lanes.home_id is not null or lanes.tail > lanes.head) and ${IS_MATCHING}`,
  "and coalesce(state in ('pending', 'failing'), false)",
);

/** A shared lane may hold some keys that wait for a moment before they get a lane of their own. */
const KEYS_AT_ONCE = 64;

// Only the first delivery of a lane, or of a key, is failing: those behind it were not begun.
const FAILING = `
  with lane as materialized (
    select id, home_id, held_key, slot, head from lanes
    where (home_id is not null or tail > head) and ${IS_MATCHING}
  )
  select distinct on (position) position::float8 as position, event_id::text as id
  from (
    select first.position, first.event_id, first.state
    from lane, lateral (
      select position, event_id, state from deliveries
      where lane_id = lane.id and position > lane.head and coalesce(state in ('pending', 'failing'), false)
      order by position limit case when lane.slot is null then 1 else ${KEYS_AT_ONCE} end
    ) as first
    where lane.home_id is null
    union all
    select first.position, first.event_id, first.state
    from lane, lateral (
      select position, event_id, state from deliveries
      where lane_id = lane.home_id and lane_key = lane.held_key and position > lane.head
        and coalesce(state in ('pending', 'failing'), false)
      order by lane_key, position limit 1
    ) as first
    where lane.home_id is not null
  ) as found
  where state = 'failing' and position < $3::float8::bigint and ${IS_BEHIND}
  order by position desc limit $4::int`;

const DEAD_LETTERED = `
  with dead as materialized (
    select distinct on (position) lane_id, position
    from deliveries join lanes on lanes.id = lane_id
    where dead_lettered_at is not null and position < $3::float8::bigint and ${IS_MATCHING} and ${IS_BEHIND}
    order by position desc, lane_id limit $4::int
  )
  select position::float8 as position, event_id::text as id from dead join deliveries using (lane_id, position)`;

import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';
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
    const found = await run<{ id: string; position: number }>(driverOf(db), {
      text,
      values: [topic ?? null, subscriber ?? null, positionOf(after), size],
    });
    return found
      .toSorted((one, other) => other.position - one.position)
      .map(({ id, position }) => atPosition(id, position));
  };
}

const IS_MATCHING = `($1::text is null or lanes.topic = $1::text)
      and ($2::text is null or lanes.subscriber = $2::text)`;

// An event has the same position in the lanes of all its subscribers. Positions are looked at in ranges, each wider than
// the one before it, until there are enough events: else each of thousands of lanes would give as many as are asked for.
const ALL = `
  with lane as materialized (
    select id, tail from lanes where home_id is null and ${IS_MATCHING}
  ),
  newest as materialized (
    select least(max(tail), $3::float8::bigint - 1) as position from lane
  )
  select found.position::float8 as position, found.event_id::text as id
  from newest,
    (values (0, 4095), (4096, 65535), (65536, 1048575), (1048576, 9007199254740991)) as span(nearest, farthest),
    lateral (
      select distinct on (delivery.position) delivery.position, delivery.event_id
      from lane, lateral (
        select position, event_id from deliveries
        where lane_id = lane.id and position >= newest.position - span.farthest
          and position <= newest.position - span.nearest
        order by position desc limit $4::int
      ) as delivery
      where lane.tail >= newest.position - span.farthest
      order by delivery.position desc limit $4::int
    ) as found
  limit $4::int`;

// The lane of a key in trouble has its deliveries in its home. Those of other lanes that are settled up to the tail have
// nothing open. "coalesce" keeps the planner from taking the open ones for few.
const OPEN = `
  with lane as materialized (
    select id, home_id, held_key, head from lanes where tail > head and ${IS_MATCHING}
  )
  select distinct on (position) position::float8 as position, event_id::text as id
  from (
    select open.position, open.event_id
    from lane, lateral (
      select position, event_id from deliveries
      where lane_id = lane.id and position > lane.head and position < $3::float8::bigint
        and coalesce(state in ('pending', 'failing'), false)
      order by position desc limit $4::int
    ) as open
    where lane.home_id is null
    union all
    select open.position, open.event_id
    from lane, lateral (
      select position, event_id from deliveries
      where lane_id = lane.home_id and lane_key = lane.held_key and position > lane.head
        and position < $3::float8::bigint and coalesce(state in ('pending', 'failing'), false)
      order by lane_key desc, position desc limit $4::int
    ) as open
    where lane.home_id is not null
  ) as found
  order by position desc limit $4::int`;

/** A shared lane may hold some keys that wait for a moment before they get a lane of their own. */
const KEYS_AT_ONCE = 64;

// Only the first delivery of a lane, or of a key, is failing: those behind it were not begun.
const FAILING = `
  with lane as materialized (
    select id, home_id, held_key, slot, head from lanes where tail > head and ${IS_MATCHING}
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
  where state = 'failing' and position < $3::float8::bigint
  order by position desc limit $4::int`;

const DEAD_LETTERED = `
  with dead as materialized (
    select distinct on (position) lane_id, position
    from deliveries join lanes on lanes.id = lane_id
    where dead_lettered_at is not null and position < $3::float8::bigint and ${IS_MATCHING}
    order by position desc, lane_id limit $4::int
  )
  select position::float8 as position, event_id::text as id from dead join deliveries using (lane_id, position)`;

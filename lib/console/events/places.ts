import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { Cursor, EventsQuery } from './fields.ts';

/** What a list is of. */
interface Listed extends Pick<EventsQuery, 'subscriber' | 'state'> {
  readonly topics?: readonly string[] | undefined;
}

/** An event that a list or a search came by, before its filters are applied. */
export interface Place {
  readonly eventId: string;
  /** Null while it awaits its place, and where nobody asked for it. */
  readonly stream: number | null;
  readonly position: number | null;
  /** Where the list goes on behind it. */
  readonly cursor: Cursor;
  /** By what a search came by it, where its own row does not tell. */
  readonly by?: string;
}

/** Gives places, newest first. @returns `size` of them, or fewer where there are no more. */
export type Places = (after: Cursor | null, size: number) => Promise<readonly Place[]>;

/** Tells when an event was emitted by its id: a UUIDv7 begins with its time. @returns epoch milliseconds. */
export function timeOf(eventId: string): number {
  return Number.parseInt(eventId.replaceAll('-', '').slice(0, 12), 16);
}

/** Goes through the events of a list, of which some may not match its filters yet. */
export function placesOf(db: Database, listed: Listed): Places {
  const { topics, subscriber = null } = listed;
  const of = topics ? `{${topics.join(',')}}` : null;
  const [order, text] = statementFor(listed);
  return async (after, size) => {
    const cursor = after?.in === order ? after : null;
    const behind =
      order === 'ids'
        ? [cursor?.in === 'ids' ? cursor.id : LAST_ID]
        : cursor?.in === 'order'
          ? [cursor.at, cursor.seq]
          : [null, null];
    return await run<Place>(driverOf(db), { text, values: [of, subscriber, ...behind, size] });
  };
}

/** Failures are few: they are gone through by the ids of their events, as all events are, and others by when they were created. */
function statementFor({ topics, subscriber, state }: Listed): readonly ['ids' | 'order', string] {
  if (state === 'dead_lettered') return ['ids', DEAD_LETTERED];
  if (state === 'failing') return ['ids', FAILING];
  if (state === 'pending') return ['order', OPEN];
  return topics === undefined && subscriber === undefined ? ['ids', NEWEST] : ['order', ALL];
}

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** All events: a UUIDv7 begins with its time. */
const NEWEST = `
  select id::text as "eventId", null as stream, null as position, json_build_object('in', 'ids', 'id', id) as cursor
  from events
  where id < $3::uuid and $1::text[] is null and $2::text is null order by events.id desc limit $4::int`;

/** Goes through rows of `exceptions` of the lanes that match. @param open selects them, with their ids. */
const exceptional = (open: string) => `
  select distinct on (event_id) event_id::text as "eventId", lanes.stream, position::float8 as position,
    json_build_object('in', 'ids', 'id', event_id) as cursor
  from (${open}) as exception join lanes on lanes.id = lane
  where event_id < $3::uuid and ($1::text[] is null or topic = any ($1::text[])) and ($2::text is null or subscriber = $2::text)
  order by event_id desc limit $4::int`;

const DEAD_LETTERED = exceptional(
  'select lane, position, event_id from exceptions where dead_lettered_at is not null',
);

const FAILING = exceptional(
  `select lane, position, event_id from exceptions where is_open and state = 'failing'`,
);

/**
 * Goes through several streams at once, newest first, by when events were created, and through the events that await their
 * places. An event has the same time before and after it is placed, so that a page neither leaves out nor repeats what is
 * placed meanwhile.
 *
 * Of many streams only those are read on that have one of the newest places: as many as the page has rows.
 *
 * @param streams selects each `stream` once, with what `places` needs.
 * @param places selects `position` and `event_id` of the newest places of `source` before `source.before`, each once.
 */
const merged = (streams: string, places: (size: string) => string) => `
  with recursive source as materialized (
    select sought.*, case when $3::text is null then 9223372036854775807
      else postbud_first_since_1(stream, $3::text::timestamptz, $4::text::bigint) end as before
    from (${streams}) as sought
  ),
  newest as materialized (
    select source.* from source, lateral (${places('1')}) as place join events on events.id = place.event_id
    order by events.created_at desc, events.seq desc limit $5::int
  ),
  placed as (
    select event_id, stream, position, created_at, seq
    from newest as source, lateral (${places('$5::int')}) as place join events on events.id = place.event_id
    order by created_at desc, seq desc limit $5::int
  ),
  topic as (
    -- From each to the next: the index has them in their order.
    (select topic from awaiting order by topic limit 1)
    union all
    select (select next.topic from awaiting as next where next.topic > topic.topic order by next.topic limit 1)
    from topic where topic.topic is not null
  ),
  unplaced as (
    select unplaced.* from topic, lateral (
      select event_id, created_at, seq from awaiting
      where awaiting.topic = topic.topic and ($2::text is null or $2::text = any (subscribers))
        and ($3::text is null or (created_at, seq) < ($3::text::timestamptz, $4::text::bigint))
      order by created_at desc, seq desc limit $5::int
    ) as unplaced
    where $1::text[] is null or topic.topic = any ($1::text[])
  )
  select event_id::text as "eventId", stream, position::float8 as position, json_build_object('in', 'order',
    'at', to_char(created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'seq', found.seq::text) as cursor
  from (
    select event_id, stream, position, created_at, seq from placed
    union all
    select event_id, null, null, created_at, seq from unplaced
  ) as found
  order by created_at desc, found.seq desc limit $5::int`;

const ALL = merged(
  `select id as stream from streams
    where ($1::text[] is null or topic = any ($1::text[])) and ($2::text is null or exists (
      select from lanes where lanes.stream = streams.id and lanes.subscriber = $2::text
    ))`,
  (size) => `
      select position, event_id from log
      where log.stream = source.stream and position < source.before order by position desc limit ${size}`,
);

// Beyond the head of any of its lanes, or waiting in one of them.
const OPEN = merged(
  `select stream, min(head) as head, array_agg(id) as lanes from lane_heads
    where ($1::text[] is null or topic = any ($1::text[])) and ($2::text is null or subscriber = $2::text) group by stream`,
  (size) => `
      select position, event_id from (
        (
          select position, event_id from log
          where log.stream = source.stream and position > source.head and position < source.before
          order by position desc limit ${size}
        )
        union
        (
          select distinct position, event_id from exceptions
          where lane = any (source.lanes) and is_open and state = 'pending' and position < source.before
          order by position desc limit ${size}
        )
      ) as open order by position desc limit ${size}`,
);

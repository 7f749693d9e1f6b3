import { BLOCK } from '../../components/identifiers/block.ts';
import { isIdentifier } from '../../components/identifiers/identifier.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { Place } from './place.ts';

/** The events that are not in the index and have an identifier, and how far the search reaches. */
export interface Unindexed {
  /** Newest first: those that wait for fan-out, then the others. */
  readonly places: readonly Place[];
  /** About how many of the newest events were neither in the index nor searched one by one. */
  readonly notSearched: number;
  /** The time of the oldest event in the index, in epoch milliseconds; null if it has all events. */
  readonly indexedFromMs: number | null;
}

/** Searched one by one: more than the index leaves out while the cron runs. */
const SEARCHED = 4096;
const SEARCHED_AWAITING = 1024;

/** Searches the newest events, which are not in the index yet, one by one. */
export async function searchUnindexed(db: Database, q: string): Promise<Unindexed> {
  const [row] = await run<{ found: Found }>(driverOf(db), { text: SEARCH, values: [q, isIdentifier(q)] });
  const { places, notSearched, oldest } = row!.found;
  return {
    places: places.map(({ id, position, at, seq }) => ({
      eventId: id,
      position,
      cursor: position === null ? { in: 'awaiting', at, seq } : { in: 'positions', position },
    })),
    notSearched,
    // A UUIDv7 begins with its time.
    indexedFromMs: oldest === null ? null : Number.parseInt(oldest.replaceAll('-', '').slice(0, 12), 16),
  };
}

interface Found {
  readonly places: readonly {
    readonly id: string;
    readonly position: number | null;
    readonly at: string;
    readonly seq: string;
  }[];
  readonly notSearched: number;
  readonly oldest: string | null;
}

const SEARCH = `
  with recursive indexed as materialized (
    select from_position, to_position from indexed_positions
  ),
  lane as materialized (
    select id, tail from lanes where home_id is null
  ),
  bound as materialized (
    select greatest(to_position, newest - ${SEARCHED - 1}) as lowest, to_position
    from (select coalesce(max(tail), 0) as newest from lane) as lanes,
      (select coalesce(max(to_position), 0) as to_position from indexed) as indexed
  ),
  topic as (
    (select topic from awaiting_fan_out order by topic limit 1)
    union all
    select (select next.topic from awaiting_fan_out as next where next.topic > topic.topic order by next.topic limit 1)
    from topic where topic.topic is not null
  ),
  awaiting as materialized (
    select newest.* from topic, lateral (
      select event_id, created_at, seq from awaiting_fan_out as awaiting
      where awaiting.topic = topic.topic order by created_at desc, seq desc limit ${SEARCHED_AWAITING}
    ) as newest
    order by created_at desc, seq desc limit ${SEARCHED_AWAITING}
  ),
  placed as materialized (
    select distinct on (delivery.position) delivery.position, delivery.event_id
    from bound, lane, lateral (
      -- No lane has more. Without the limit the planner expects a third of all deliveries, and reads the whole table.
      select position, event_id from deliveries
      where lane_id = lane.id and position >= bound.lowest order by lane_id, position limit ${SEARCHED}
    ) as delivery
    where lane.tail >= bound.lowest
  ),
  candidate as (
    select event_id, position, null::timestamptz as awaiting_since, null::bigint as seq from placed
    union all
    select event_id, null, created_at, seq from awaiting
  ),
  matching as (
    select candidate.* from candidate, lateral (
      select correlation_id, causation_id, ordering_key, dedupe_key, payload from events
      -- Each candidate is looked up: a join would become that of a hash of all events, with their payloads.
      where id = candidate.event_id offset 0
    ) as event
    where correlation_id = $1::text or causation_id = $1::text or ordering_key = $1::text or dedupe_key = $1::text
      or $2::boolean and jsonb_path_exists(payload, '$.** ? (@ == $q)', jsonb_build_object('q', $1::text))
  )
  select json_build_object(
    'places', (
      select coalesce(json_agg(json_build_object('id', event_id, 'position', position,
        'at', to_char(awaiting_since at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'seq', seq::text)
        order by awaiting_since desc nulls last, matching.seq desc, position desc), '[]') from matching
    ),
    'notSearched', greatest(0, bound.lowest - greatest(to_position, 1)) + greatest(0, (
      select count(*) from (select from awaiting_fan_out limit 100000) as waiting
    ) - ${SEARCHED_AWAITING}),
    'oldest', case when (select from_position from indexed) > 0 then coalesce((
      select encode(substring(event_ids from (16 * slot + 1)::int for 16), 'hex')::uuid
      from (select event_ids from event_blocks order by from_position limit 1) as first,
        generate_series(0, ${BLOCK - 1}) as slot
      where substring(event_ids from (16 * slot + 1)::int for 16) <> decode(repeat('00', 16), 'hex')
      order by slot limit 1
    ), (select event_id from placed order by position limit 1)) end
  ) as found
  from bound`;

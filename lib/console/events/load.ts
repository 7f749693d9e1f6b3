import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { msOf } from '../../platform/time.ts';
import { jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { itemFields } from './fields.ts';
import type { Place } from './place.ts';
import type { EventsQuery } from './query.ts';

/** An event as the database has it. */
export interface LoadedEvent {
  readonly item: Row<typeof itemFields>;
  /** Its place among those that were asked for. */
  readonly place: number;
  /** Null if it is long and nobody needs the whole. */
  readonly payload: unknown;
  readonly version: number;
  readonly correlationId: string | null;
  readonly causationId: string | null;
  readonly orderingKey: string;
  readonly dedupeKey: string | null;
}

/** Reads the events at these places that match the query's filters, in the same order. */
export async function loadEvents(
  db: Database,
  places: readonly Place[],
  { q, topic, state, subscriber, since }: EventsQuery,
  now?: Date,
): Promise<LoadedEvent[]> {
  if (places.length === 0) return [];
  return await run<LoadedEvent>(driverOf(db), {
    text: LOAD,
    values: [
      `{${places.map(({ eventId }) => eventId).join(',')}}`,
      `{${places.map(({ position }) => position ?? 'null').join(',')}}`,
      topic ?? null,
      state ?? null,
      subscriber ?? null,
      since === undefined ? null : msOf(since),
      q !== undefined,
      now?.toISOString() ?? null,
    ],
  });
}

/** Lists do not read longer payloads. */
const LISTED_PAYLOAD_BYTES = 16 * 1024;

// A delivery is in the lane of its subscription or, with a key, of its key's slot.
const LOAD = `
  with asked as materialized (
    select * from unnest($1::text::uuid[], $2::text::bigint[]) with ordinality as asked(id, position, place)
  )
  select ${jsonOf(itemFields)} as item, place::int as place,
    case when $7::boolean or pg_column_size(payload) <= ${LISTED_PAYLOAD_BYTES} then payload end as payload, version,
    correlation_id as "correlationId", causation_id as "causationId", ordering_key as "orderingKey",
    dedupe_key as "dedupeKey"
  from asked join lateral (
      select id, topic, payload, version, created_at, ordering_key, dedupe_key, correlation_id, causation_id, subscribers,
        state
      from events where events.id = asked.id
      union all
      select id, topic, payload, version, set_at, ordering_key, dedupe_key, correlation_id, causation_id, '{}', 'pending'
      from timers where timers.id = asked.id
    ) as events on true
    left join lateral (
      select lane_id || '-' || deliveries.position as id, deliveries.state
      from (
        select id from lanes
        where topic = events.topic and subscriber = $5::text and lanes.ordering_key = '' and events.ordering_key = ''
        union all
        select id from lanes
        where topic = events.topic and subscriber = $5::text and events.ordering_key <> ''
          and slot = postbud_slot(events.ordering_key) and held_key = ''
      ) as lane join deliveries on lane_id = lane.id and deliveries.position = asked.position
      where event_id = events.id
      limit 1
    ) as delivery on true
  where ($3::text is null or topic = $3::text)
    and ($5::text is null or delivery.id is not null
      or asked.position is null and $5::text = any (subscribers))
    and ($4::text is null or $4::text = case when $5::text is null then events.state::text
      else coalesce(delivery.state::text, 'pending') end)
    and ($6::float8 is null or created_at >= coalesce($8::text::timestamptz, clock_timestamp())
      - $6::float8 * interval '1 millisecond')
  order by place`;

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { msOf } from '../../platform/time.ts';
import { placeOf } from '../kit/event-state.ts';
import { jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { itemFields } from './fields.ts';
import type { Place } from './places.ts';
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
      `{${places.map(({ stream }) => stream ?? 'null').join(',')}}`,
      `{${places.map(({ position }) => position ?? 'null').join(',')}}`,
      topic ?? null,
      subscriber ?? null,
      state ?? null,
      q !== undefined,
      since === undefined ? null : msOf(since),
      now?.toISOString() ?? null,
    ],
  });
}

/** Lists do not read longer payloads. */
const LISTED_PAYLOAD_BYTES = 16 * 1024;

const LOAD = `
  with asked as materialized (
    select * from unnest($1::text::uuid[], $2::text::int[], $3::text::bigint[])
      with ordinality as asked(id, stream, position, place)
  )
  select ${jsonOf(itemFields)} as item, place::int as place,
    case when $7::boolean or pg_column_size(payload) <= ${LISTED_PAYLOAD_BYTES} then payload end as payload, version,
    correlation_id as "correlationId", causation_id as "causationId", ordering_key as "orderingKey",
    dedupe_key as "dedupeKey"
  from asked join lateral (
      select id, topic, payload, version, created_at, ordering_key, dedupe_key, correlation_id, causation_id, subscribers,
        seq
      from events where events.id = asked.id
      union all
      select id, topic, payload, version, set_at, ordering_key, dedupe_key, correlation_id, causation_id, '{}', null
      from timers where timers.id = asked.id
    ) as events on true
    left join lateral (
      select asked.stream, asked.position where asked.position is not null
      union all
      select stream, position from ${placeOf('events')} where asked.position is null and events.seq is not null
    ) as known on true
    cross join lateral (
      select max(case when dismissed_at is null then deliveries.state else 'delivered' end) as worst,
        max(deliveries.state) filter (where deliveries.subscriber = $5::text) as own
      from deliveries
      where lane = any (array(select id from lanes where lanes.stream = known.stream)) and position = known.position
    ) as delivery
    cross join lateral (
      select coalesce(worst, case when seq is null or known.position is null and subscribers <> '{}' then 'pending'
        else 'delivered' end::delivery_state) as state
    ) as whole
  where ($4::text is null or topic = $4::text)
    and ($5::text is null or own is not null or known.position is null and $5::text = any (subscribers))
    and ($6::text is null or $6::text = case when $5::text is null then state::text
      else coalesce(own::text, 'pending') end)
    and ($8::float8 is null or created_at >= coalesce($9::text::timestamptz, clock_timestamp())
      - $8::float8 * interval '1 millisecond')
  order by place`;

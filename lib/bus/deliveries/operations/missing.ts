import { run } from '../../../platform/db/statement.ts';

/** The deliveries that retained events of a topic lack for a subscriber. Instants are ISO 8601. */
export interface Missing {
  readonly matched: number;
  /** Of events that are not fanned out yet. */
  readonly awaiting: number;
  readonly oldest: string | null;
  readonly newest: string | null;
  readonly delivered: number;
  readonly waiting: number;
  /** Position before that of the oldest event. */
  readonly front: string;
}

/** Counts what a backfill would write, and what of the subscription is newer. */
export async function missingOf(
  on: Parameters<typeof run>[0],
  { topic, subscriber, since }: { readonly topic: string; readonly subscriber: string; readonly since: Date },
): Promise<Missing> {
  const [row] = await run<Missing>(on, { text: MISSING, values: [topic, subscriber, since.toISOString()] });
  return row!;
}

const MISSING = `
  with source as materialized (
    select id, postbud_position_before_1(id, $3::text::timestamptz) as older
    from unnest(postbud_sources_1($1::text, $2::text)) as source(id)
  ),
  own as materialized (
    select array_agg(id) as ids from lanes where topic = $1::text and subscriber = $2::text and home_id is null
  ),
  event as materialized (
    select distinct position, event_id from source, lateral (
      select position, event_id from deliveries where lane_id = source.id and position > older
    ) as found
  ),
  missing as materialized (
    select event.position, created_at from event join events on events.id = event_id, own
    where created_at >= $3::text::timestamptz and not exists (
      select from deliveries where lane_id = any (own.ids) and deliveries.position = event.position
    )
  ),
  span as materialized (
    select count(*) as matched, min(position) - 1 as front, min(created_at) as oldest, max(created_at) as newest from missing
  ),
  newer as materialized (
    select count(*) filter (where state = 'delivered') as delivered,
      count(*) filter (where state in ('pending', 'failing')) as waiting
    from span, own, deliveries where lane_id = any (own.ids) and position > span.front
  )
  select matched::float8, (
      select count(*)::float8 from awaiting_fan_out
      where topic = $1::text and created_at >= $3::text::timestamptz and not $2::text = any (subscribers)
    ) as awaiting, to_char(oldest at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as oldest,
    to_char(newest at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as newest, delivered::float8, waiting::float8,
    -- Where nothing is missing, events may be fanned out from here on before the backfill is opened.
    coalesce(front, (select max(tail) from lanes join source using (id)), 0)::text as front
  from span, newer`;

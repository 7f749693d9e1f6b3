import { run } from '../../../platform/db/statement.ts';
import type { Executor } from '../../../platform/db/statement.ts';
import type { SubscriptionName } from '../subscription.ts';

/** The older events of a topic that a subscriber is to be given. */
export interface Backfilling extends SubscriptionName {
  /** Creation time of the oldest event. */
  readonly since: Date;
}

/** What a backfill would do. Instants are ISO 8601. */
export interface BackfillPreview {
  /** Deliveries that are missing, also of events that are not fanned out yet. */
  readonly matched: number;
  /** Creation times of the first and the last event; null when nothing is missing. */
  readonly oldestAt: string | null;
  readonly newestAt: string | null;
  /** Newer events that the subscriber has been handed already, and that can't come after the older ones any more. */
  readonly alreadyDelivered: number;
  /** Newer events that wait, and that come after the older ones. */
  readonly waiting: number;
  /** Position before that of the oldest event. */
  readonly front: string;
}

/** Counts what a backfill would write, and what of the subscription is newer. */
export async function missingOf(
  on: Executor,
  { topic, subscriber, since }: Backfilling,
): Promise<BackfillPreview> {
  const values = [topic, subscriber, since.toISOString()];
  const [row] = await run<BackfillPreview>(on, { text: MISSING, values });
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
  select (matched + (
      select count(*) from awaiting_fan_out
      where topic = $1::text and created_at >= $3::text::timestamptz and not $2::text = any (subscribers)
    ))::float8 as matched, to_char(oldest at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "oldestAt",
    to_char(newest at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "newestAt",
    delivered::float8 as "alreadyDelivered", waiting::float8 as waiting,
    -- Where nothing is missing, events may be fanned out from here on before the backfill is opened.
    coalesce(front, (select max(tail) from lanes join source using (id)), 0)::text as front
  from span, newer`;

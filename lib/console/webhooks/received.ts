import type { Provider } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { State } from '../kit/shapes.ts';
import { cursorOf } from './query.ts';
import type { WebhookQuery } from './query.ts';

/** A receipt with its event. Times are epoch milliseconds. */
export interface FoundReceipt {
  readonly provider: Provider;
  readonly provider_event_id: string;
  readonly event_type: string | null;
  readonly received_at: number;
  readonly duplicates: number;
  readonly mismatches: number;
  readonly last_duplicate_at: number | null;
  readonly reconciled_at: number | null;
  /** Null if the event was deleted after the retention. */
  readonly event_id: string | null;
  readonly state: State | null;
}

/** Where a listed receipt's event is: fanned out to a position, or waiting for it since an instant. */
export interface Place {
  readonly position: string | null;
  /** In Postgres's notation, to the microsecond. */
  readonly at: string;
  readonly seq: string;
}

/**
 * Finds the newest receipts of some providers, with one more than requested if there is one.
 *
 * Receipts have no order: they are kept forever, under the provider's id. Their events have one, which fan-out wrote,
 * so this reads the newest deliveries of the webhooks' topics and looks up the receipt of each. It costs the intake no
 * index, and reaches as far back as events are kept.
 */
export async function findReceived(
  db: Database,
  from: readonly Provider[],
  query: WebhookQuery,
): Promise<readonly (FoundReceipt & Place)[]> {
  const { position = null, at = null, seq = null } = cursorOf('receipts', query);
  return await run<FoundReceipt & Place>(driverOf(db), {
    text: RECEIVED,
    values: [JSON.stringify(from.map(topicOf)), position, at, seq, query.limit + 1],
  });
}

export function topicOf(provider: Provider): string {
  return `webhook.${provider}.received`;
}

const RECEIVED = `
  with cursor as materialized (
    select $2::text::bigint as position, coalesce($3::text::timestamptz, 'infinity') as at,
      coalesce($4::text::bigint, 0) as seq
  ),
  topic as materialized (
    select name from jsonb_array_elements_text($1::text::jsonb) as name
  ),
  waiting as (
    select newest.* from cursor, topic, lateral (
      select event_id, null::bigint as position, created_at, seq from awaiting_fan_out
      where topic = name and cursor.position is null and (created_at, seq) < (cursor.at, cursor.seq)
      order by created_at desc, seq desc limit $5::int
    ) as newest
  ),
  lane as materialized (
    select id from topic join lanes on topic = name where home_id is null
  ),
  -- A page that began with waiting events goes on behind them, also when they have been fanned out since.
  fanned_out as (
    select event_id, max(newest.position) as position from cursor, lane, lateral (
      select event_id, deliveries.position from deliveries
      where lane_id = lane.id and deliveries.position < coalesce(cursor.position, 9223372036854775807)
        and (cursor.at = 'infinity' or exists (
          select from events where id = event_id and (created_at, seq) < (cursor.at, cursor.seq)
        ))
      order by deliveries.position desc limit $5::int
    ) as newest
    group by event_id order by 2 desc limit $5::int
  ),
  page as materialized (
    select event_id, waiting.position, waiting.created_at, waiting.seq from waiting
    union all
    select id, fanned_out.position, created_at, seq from fanned_out join events on id = event_id
    order by 2 desc nulls first, 3 desc, 4 desc limit $5::int
  )
  select split_part(topic, '.', 2) as provider, payload ->> 'eventId' as provider_event_id,
    coalesce(receipt.event_type, payload ->> 'eventType') as event_type,
    (extract(epoch from coalesce(received_at, page.created_at)) * 1000)::float8 as received_at,
    coalesce(duplicates, 0) as duplicates, coalesce(body_mismatches, 0) as mismatches,
    (extract(epoch from last_duplicate_at) * 1000)::float8 as last_duplicate_at,
    (extract(epoch from reconciled_at) * 1000)::float8 as reconciled_at, id::text as event_id, state,
    position::text, page.seq::text, to_char(page.created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
  from page join events on id = page.event_id
    left join webhook_receipts as receipt
      on receipt.provider = split_part(topic, '.', 2) and receipt.event_id = payload ->> 'eventId'
  order by page.position desc nulls first, page.created_at desc, page.seq desc`;

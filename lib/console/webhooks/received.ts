import { providerOf } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { jsonOf } from '../kit/fields.ts';
import { ENDPOINT, receiptFields } from './fields.ts';
import type { FoundReceipt } from './fields.ts';
import { placeIn } from './query.ts';
import type { Placed, WebhookQuery } from './query.ts';

/**
 * Finds the newest receipts of some endpoints, with one more than requested if there is one.
 *
 * Receipts have no order: they are kept forever, under the provider's id. Their events have one, which fan-out wrote,
 * so this reads the newest deliveries of the webhooks' topics and looks up the receipt of each. It costs the intake no
 * index, and reaches as far back as events are kept.
 */
export async function findReceived(
  db: Database,
  from: readonly string[],
  query: WebhookQuery,
): Promise<readonly Placed<FoundReceipt>[]> {
  const { position = null, at = null, seq = null, next = null } = placeIn('receipts', query);
  return await run<Placed<FoundReceipt>>(driverOf(db), {
    text: RECEIVED,
    values: [
      JSON.stringify([...new Set(from.map(topicOf))]),
      position,
      at,
      seq,
      query.limit + 1,
      next,
      query.provider ?? null,
    ],
  });
}

export function topicOf(endpoint: string): string {
  return `webhook.${providerOf(endpoint)}.received`;
}

/** Leaves out the events of other accounts on the same topic, where one is asked for. */
const OF_ENDPOINT = `($7::text is null or (
  select ${ENDPOINT} = $7::text from events where id = event_id
))`;

const RECEIVED = `
  with topic as materialized (
    select name from jsonb_array_elements_text($1::text::jsonb) as name
  ),
  lane as materialized (
    select id, tail from topic join lanes on topic = name where home_id is null
  ),
  cursor as materialized (
    select $2::text::bigint as position, coalesce($3::text::timestamptz, 'infinity') as at,
      coalesce($4::text::bigint, 0) as seq,
      coalesce($6::text::bigint, (select max(tail) + 1 from lane), 0) as next
  ),
  waiting as (
    select newest.* from cursor, topic, lateral (
      select event_id, null::bigint as position, created_at, seq from awaiting_fan_out
      where topic = name and ${OF_ENDPOINT} and cursor.position is null and (created_at, seq) < (cursor.at, cursor.seq)
      order by created_at desc, seq desc limit $5::int
    ) as newest
  ),
  -- Of the events that waited when the list began, those that it has shown may have been fanned out since.
  fanned_out as (
    select event_id, max(newest.position) as position from cursor, lane, lateral (
      select event_id, deliveries.position from deliveries
      where lane_id = lane.id and ${OF_ENDPOINT} and deliveries.position < coalesce(cursor.position, 9223372036854775807)
        and (cursor.at = 'infinity' or deliveries.position < cursor.next or (
          select (created_at, events.seq) < (cursor.at, cursor.seq) from events where id = event_id
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
  select ${jsonOf(receiptFields)} as item,
    case
      when page.position is null then json_build_object('seq', page.seq::text, 'next', cursor.next::text,
        'at', to_char(page.created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
      when cursor.at < 'infinity' and page.position > cursor.next then json_build_object(
        'position', page.position::text, 'seq', cursor.seq::text, 'next', cursor.next::text, 'at', $3::text)
      else json_build_object('position', page.position::text)
    end as place
  from cursor, page join events as event on event.id = page.event_id
    left join webhook_receipts as receipt
      on receipt.provider = ${ENDPOINT} and receipt.event_id = payload ->> 'eventId'
  order by page.position desc nulls first, page.created_at desc, page.seq desc`;

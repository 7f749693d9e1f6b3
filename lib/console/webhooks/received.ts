import { providerOf } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { jsonOf } from '../kit/fields.ts';
import { endpointOf, receiptFields } from './fields.ts';
import type { FoundReceipt } from './fields.ts';
import { placeIn } from './query.ts';
import type { Placed, WebhookQuery } from './query.ts';

/**
 * Finds the newest receipts of some endpoints, with one more than requested if there is one.
 *
 * Receipts have no order: they are kept forever, under the provider's id. Their events have one, so this reads the newest
 * places of the webhooks' topics, and looks up the receipt of each. It costs the intake no index, and reaches as far back
 * as events are kept. An event has the same time before and after it is placed, so that a page neither leaves out nor
 * repeats what is placed meanwhile.
 */
export async function findReceived(
  db: Database,
  from: readonly string[],
  query: WebhookQuery,
): Promise<readonly Placed<FoundReceipt>[]> {
  const { at = null, seq = null } = placeIn('receipts', query);
  return await run<Placed<FoundReceipt>>(driverOf(db), {
    text: RECEIVED,
    values: [
      JSON.stringify([...new Set(from.map(topicOf))]),
      at,
      seq,
      query.limit + 1,
      query.provider ?? null,
    ],
  });
}

export function topicOf(endpoint: string): string {
  return `webhook.${providerOf(endpoint)}.received`;
}

/** Leaves out the events of other accounts on the same topic, where one is asked for. */
const OF_ENDPOINT = `($5::text is null or ${endpointOf('events')} = $5::text)`;

const RECEIVED = `
  with topic as materialized (
    select name from jsonb_array_elements_text($1::text::jsonb) as name
  ),
  stream as materialized (
    select id, case when $2::text is null then 9223372036854775807
      else postbud_first_since_1(id, $2::text::timestamptz, $3::text::bigint) end as before
    from topic join streams on topic = name
  ),
  page as materialized (
    select unplaced.* from topic, lateral (
      select event_id, awaiting.created_at, awaiting.seq from awaiting join events on id = event_id
      where awaiting.topic = name and ${OF_ENDPOINT}
        and ($2::text is null or (awaiting.created_at, awaiting.seq) < ($2::text::timestamptz, $3::text::bigint))
      order by awaiting.created_at desc, awaiting.seq desc limit $4::int
    ) as unplaced
    union all
    select placed.* from stream, lateral (
      select event_id, created_at, seq from log join events on events.id = event_id
      where log.stream = stream.id and position < before and ${OF_ENDPOINT}
      order by position desc limit $4::int
    ) as placed
    order by created_at desc, seq desc limit $4::int
  )
  select ${jsonOf(receiptFields)} as item,
    json_build_object('at', to_char(page.created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'seq', page.seq::text) as place
  from page join events as event on event.id = page.event_id
    left join webhook_receipts as receipt
      on receipt.provider = ${endpointOf('event')} and receipt.event_id = payload ->> 'eventId'
  order by page.created_at desc, page.seq desc`;

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
import { jsonOf } from '../kit/fields.ts';
import { endpointOf, receiptFields } from './fields.ts';
import type { FoundReceipt } from './fields.ts';
import type { Placed } from './query.ts';
import { topicOf } from './received.ts';

/** An event id is the time of its function; a receipt has the database's, after a wait for locks of 2 s at most. */
const BEFORE_MS = 10 * SECOND;
const AFTER_MS = 5 * SECOND;

/** Finds the receipts of one webhook by the provider's id, however old, each with its event if that is still kept. */
export async function findReceipt(
  db: Database,
  from: readonly string[],
  id: string,
): Promise<readonly Placed<FoundReceipt>[]> {
  const topics = from.map((provider) => ({ provider, topic: topicOf(provider) }));
  return await run<Placed<FoundReceipt>>(driverOf(db), {
    text: RECEIPT,
    values: [JSON.stringify(topics), id, BEFORE_MS, AFTER_MS],
  });
}

// Ids of events are UUIDv7, so their primary key finds the few that were recorded together with the receipt.
const RECEIPT = `
  with receipt as materialized (
    select webhook_receipts.*, topic, extract(epoch from received_at) * 1000 as received_ms
    from jsonb_to_recordset($1::text::jsonb) as sender (provider text, topic text)
      join webhook_receipts using (provider)
    where event_id = $2::text
  )
  select ${jsonOf(receiptFields)} as item, null as place
  from receipt left join lateral (
    select events.* from events
    where id > (lpad(to_hex((received_ms - $3::float8)::bigint), 12, '0') || repeat('0', 20))::uuid
      and id < (lpad(to_hex((received_ms + $4::float8)::bigint), 12, '0') || repeat('0', 20))::uuid
      and events.topic = receipt.topic and payload ->> 'eventId' = receipt.event_id
      and ${endpointOf('events')} = receipt.provider
    limit 1
  ) as event on true
  order by received_at desc, provider`;

import type { TestWebhook } from '../../../drizzle/schema.ts';
import { oldestIn } from '../../components/subscriber-health/backlog-ages.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { operatorNameSql } from '../kit/operator-names.ts';
import type { State } from '../kit/shapes.ts';
import { endpointOf } from '../webhooks/fields.ts';

/** The statement's result. Times are epoch milliseconds. */
export interface Found {
  readonly now: number;
  readonly last_pass: number | null;
  /** An empty topic: all. */
  readonly pauses: readonly {
    readonly subscriber: string;
    readonly topic: string;
    readonly by: string;
    readonly by_name: string | null;
  }[];
  /** What waits for a subscriber that is not attached. */
  readonly waiting: readonly {
    readonly subscriber: string;
    readonly deliveries: number;
    readonly oldest: number | null;
  }[];
  readonly test: FoundTest | null;
}

export interface FoundTest {
  readonly id: string;
  readonly started_at: number;
  readonly started_by: string;
  readonly origin: string | null;
  readonly subscribers: readonly string[];
  readonly webhooks: readonly TestWebhook[] | null;
}

export interface FoundDelivery {
  readonly event_id: string;
  readonly subscriber: string;
  readonly state: State;
  readonly is_dismissed: boolean;
  readonly attempts: number;
  readonly after_ms: number | null;
  readonly next_attempt_at: number | null;
  /** Of the last attempt that failed or waited. */
  readonly message: string | null;
  readonly answer: string | null;
}

/** @param unattached the subscriptions of the catalog that are not attached here. @param id null: no test. */
export async function findSmokeTest(
  db: Database,
  unattached: readonly { readonly topic: string; readonly subscriber: string }[],
  id: string | null,
): Promise<Found> {
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: FOUND,
    values: [JSON.stringify(unattached), id],
  });
  return row!.found;
}

export interface FoundReceipt {
  readonly provider: string;
  readonly event_id: string | null;
}

/** Finds the receipts of webhooks, with their events. */
export async function findReceipts(
  db: Database,
  sent: readonly TestWebhook[],
): Promise<readonly FoundReceipt[]> {
  return await run<FoundReceipt>(driverOf(db), { text: RECEIPTS, values: [JSON.stringify(sent)] });
}

export async function findDeliveries(
  db: Database,
  eventIds: readonly string[],
): Promise<readonly FoundDelivery[]> {
  return await run<FoundDelivery>(driverOf(db), { text: DELIVERIES, values: [JSON.stringify(eventIds)] });
}

const FOUND = `
  with waiting as (
    select counts.topic, counts.subscriber, pending + failing as deliveries
    from jsonb_to_recordset($1::text::jsonb) as asked(topic text, subscriber text)
      join subscription_counts as counts using (topic, subscriber)
    where pending + failing > 0
  ),
  oldest as (
    select waiting.*, (
      select min(created_at) from lane_heads as lane, ${oldestIn('lane')} as oldest
      where lane.topic = waiting.topic and lane.subscriber = waiting.subscriber
    ) as since
    from waiting
  ),
  of_subscriber as (
    select subscriber, sum(deliveries)::float8 as deliveries, extract(epoch from min(since)) * 1000 as oldest
    from oldest group by subscriber
  )
  select json_build_object(
    'now', extract(epoch from clock_timestamp()) * 1000,
    'last_pass', (select extract(epoch from at) * 1000 from last_pass limit 1),
    'pauses', (
      select coalesce(json_agg(json_build_object('subscriber', subscriber, 'topic', topic, 'by', paused_by,
        'by_name', ${operatorNameSql('paused_by')})), '[]')
      from pauses
    ),
    'waiting', (select coalesce(json_agg(of_subscriber), '[]') from of_subscriber),
    'test', (
      select json_build_object('id', id, 'started_at', extract(epoch from started_at) * 1000, 'started_by', started_by,
        'origin', origin, 'subscribers', subscribers, 'webhooks', webhooks)
      from smoke_tests where id = $2::uuid
    )
  ) as found`;

const DELIVERIES = `
  select delivery.event_id, delivery.subscriber, delivery.state::text as state, dismissed_at is not null as is_dismissed,
    attempts::int as attempts, round(extract(epoch from delivered_at - created_at) * 1000)::float8 as after_ms,
    (extract(epoch from next_attempt_at) * 1000)::float8 as next_attempt_at,
    last ->> 'message' as message, last ->> 'answer' as answer
  from jsonb_array_elements_text($1::text::jsonb) as asked(id) join events on events.id = asked.id::uuid,
    lateral (select * from deliveries where event_id = events.id) as delivery
    left join lateral (
      select entry as last from jsonb_array_elements(attempt_log) with ordinality as log(entry, number)
      where entry ->> 'outcome' in ('failed', 'waited') order by number desc limit 1
    ) as log on true`;

// As the page of webhooks does: ids of events are UUIDv7, so their primary key finds the few that were recorded together
// with a receipt.
const RECEIPTS = `
  select receipt.provider, event.id::text as event_id
  from jsonb_to_recordset($1::text::jsonb) as sent(provider text, "receiptId" text), lateral (
    select *, extract(epoch from received_at) * 1000 as ms from webhook_receipts
    where webhook_receipts.provider = sent.provider and event_id = sent."receiptId"
  ) as receipt left join lateral (
    select id from events
    where id > (lpad(to_hex((receipt.ms - 10000)::bigint), 12, '0') || repeat('0', 20))::uuid
      and id < (lpad(to_hex((receipt.ms + 5000)::bigint), 12, '0') || repeat('0', 20))::uuid
      and topic = 'webhook.' || regexp_replace(receipt.provider, '_\\d+$', '') || '.received'
      and events.payload ->> 'eventId' = receipt.event_id and ${endpointOf('events')} = receipt.provider
    limit 1
  ) as event on true`;

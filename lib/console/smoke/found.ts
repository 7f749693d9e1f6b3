import type { TestWebhook } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { leasedHomeLanes } from '../../platform/db/leased-home-lanes.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { operatorNameSql } from '../kit/operator-names.ts';
import type { State } from '../kit/shapes.ts';
import { ENDPOINT } from '../webhooks/fields.ts';

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

/** How many lanes of a subscription are examined, as by the overview. */
const LANES_LOOKED_AT = 100;

const FOUND = `
  with waiting as (
    select asked.topic, asked.subscriber, sum(pending) + sum(failing) as deliveries
    from jsonb_to_recordset($1::text::jsonb) as asked(topic text, subscriber text)
      join backlog on backlog.topic = asked.topic and backlog.subscriber = asked.subscriber
    group by asked.topic, asked.subscriber having sum(pending) + sum(failing) > 0
  ),
  oldest as (
    select waiting.*, (
      select min(created_at)
      from (
        (
          select * from lanes
          where lanes.topic = waiting.topic and lanes.subscriber = waiting.subscriber and due_at is not null
          order by due_at limit ${LANES_LOOKED_AT}
        )
        union all
        (${leasedHomeLanes('waiting.topic', 'waiting.subscriber')}
        )
      ) as lane, lateral (
        select event_id from postbud_next_2(lane.id, home_id, slot, held_key, lane.head, 1)
      ) as next, lateral (
        select created_at from events where id = next.event_id limit 1
      ) as event
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

// Event by event: the block ranges of \`deliveries_event\` find the deliveries of one.
const DELIVERIES = `
  select delivery.event_id, lanes.subscriber, delivery.state::text as state, dismissed_at is not null as is_dismissed,
    attempts::int as attempts, round(extract(epoch from delivered_at - created_at) * 1000)::float8 as after_ms,
    (extract(epoch from next_attempt_at) * 1000)::float8 as next_attempt_at,
    last ->> 'message' as message, last ->> 'answer' as answer
  from jsonb_array_elements_text($1::text::jsonb) as asked(id) join events on events.id = asked.id::uuid,
    lateral (select * from deliveries where event_id = events.id) as delivery
    join lanes on lanes.id = lane_id
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
      and payload ->> 'eventId' = receipt.event_id and ${ENDPOINT} = receipt.provider
    limit 1
  ) as event on true`;

import { isStating } from '../../components/payments/provider-statements.ts';
import { reconciledAs, providerOf } from '../../platform/webhook-settings.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf, SECOND } from '../../platform/time.ts';
import { effectsOf } from '../event/family.ts';
import { placesOf } from '../events/places.ts';
import type { Place } from '../events/places.ts';
import { collect } from '../events/read.ts';
import { jsonOf, writeCursor } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import type { Bus } from '../kit/route.ts';
import { endpointOf, reconciliationFields, refusalFields, setAsideFields, receiptFields } from './fields.ts';
import type { WebhookPage, WebhookQuery, FoundReceipt, WebhookReceipt } from './fields.ts';

/** Lists what providers sent. A query for one id finds its receipts, and nothing else. */
export async function readWebhooks(
  db: Database,
  endpoints: ReturnType<Bus['webhooks']>,
  query: WebhookQuery,
): Promise<WebhookPage> {
  const shown = endpoints.filter((one) => query.provider === undefined || one.provider === query.provider);
  const from = shown.map(({ provider }) => provider);
  const { id, limit } = query;
  const [{ senders, refusals, setAside }, last, received] = await Promise.all([
    findSent(db, from, query),
    Promise.all(from.map((provider) => listReceived(db, [provider], { provider, limit: 1 }, LOOKED_AT))),
    id === undefined ? listReceived(db, from, query) : findReceipt(db, from, id, limit),
  ]);
  return {
    generatedAt: instantOf(Date.now()),
    filters: { provider: query.provider, id },
    providers: shown.map(({ reconciliation: setting, ...endpoint }, place) => {
      const { reconciliation } = senders.find(({ provider }) => provider === endpoint.provider)!;
      return {
        ...endpoint,
        lastReceivedAt: last[place]!.items[0]?.receivedAt ?? null,
        reconciliation: setting && { ...reconciliation, setting },
      };
    }),
    items: await withEffects(db, received.items),
    nextCursor: received.next && writeCursor(received.next),
    refusals,
    setAside,
  };
}

/** So many of the newest webhooks of a provider are searched for the last one of an account. */
const LOOKED_AT = 1000;

interface Sent {
  readonly senders: readonly {
    readonly provider: string;
    readonly reconciliation: Row<typeof reconciliationFields>;
  }[];
  readonly refusals: WebhookPage['refusals'];
  readonly setAside: WebhookPage['setAside'];
}

/** Finds what endpoints were sent beside the receipts, and what providers were asked for. */
async function findSent(
  db: Database,
  from: readonly string[],
  { provider, limit }: WebhookQuery,
): Promise<Sent> {
  const senders = from.map((one) => ({ provider: one, topic: topicOf(one), asked: reconciledAs(one) }));
  const [row] = await run<{ sent: Sent }>(driverOf(db), {
    text: SENT,
    values: [JSON.stringify(senders), provider ?? null, limit],
  });
  return row!.sent;
}

// The newest of the times is that of the last refusal: `last_at` of earlier releases is that of the write, some seconds later.
const SENT = `
  with sender as materialized (
    select * from jsonb_to_recordset($1::text::jsonb) as sender (provider text, topic text, asked text)
  ),
  refused as (
    select provider, reason, sum(count) as last_30_days,
      max(coalesce(recent_at[1], last_at)) as last_at
    from webhook_rejections
    where day > (clock_timestamp() at time zone 'utc')::date - 30 and ($2::text is null or provider = $2::text)
    group by provider, reason
  ),
  waiting as (
    select * from webhooks_set_aside where unclaimed_at is null and provider in (select provider from sender)
    order by set_aside_at desc, event_id desc limit $3::int
  )
  select json_build_object(
    'senders', (
      select coalesce(json_agg(
        json_build_object('provider', sender.provider, 'reconciliation', ${jsonOf(reconciliationFields)})
      ), '[]')
      from sender left join reconciliations on reconciliations.provider = asked
    ),
    'refusals', (
      select coalesce(json_agg(${jsonOf(refusalFields)} order by last_at desc, provider, reason), '[]') from refused
    ),
    'setAside', (
      select coalesce(json_agg(${jsonOf(setAsideFields)} order by set_aside_at desc, event_id desc), '[]') from waiting
    )
  ) as sent`;

function topicOf(endpoint: string): string {
  return `webhook.${providerOf(endpoint)}.received`;
}

/**
 * Lists the newest receipts of some endpoints, by the events of their topics. Receipts have no order: they are kept forever,
 * under the provider's id. Events have one, so this costs the intake no index, and reaches as far back as events are kept.
 */
async function listReceived(
  db: Database,
  from: readonly string[],
  { provider, limit, cursor }: WebhookQuery,
  budget = Infinity,
) {
  const load = async (places: readonly Place[]) => {
    const values = [`{${places.map(({ eventId }) => eventId).join(',')}}`, provider ?? null];
    const found = await run<{ item: FoundReceipt; place: number }>(driverOf(db), { text: RECEIVED, values });
    return found.map(({ item, place }) => ({ item, cursor: places[place - 1]!.cursor }));
  };
  const places = placesOf(db, { topics: [...new Set(from.map(topicOf))] });
  return await collect(places, { limit, cursor, load, budget });
}

// The events of other accounts on the same topic are left out, where one is asked for.
const RECEIVED = `
  select ${jsonOf(receiptFields)} as item, place::int as place
  from unnest($1::text::uuid[]) with ordinality as asked(id, place) join events as event on event.id = asked.id
    left join webhook_receipts as receipt
      on receipt.provider = ${endpointOf('event')} and receipt.event_id = payload ->> 'eventId'
  where $2::text is null or ${endpointOf('event')} = $2::text
  order by place`;

/** An event id is the time of its function; a receipt has the database's, after a wait for locks of 2 s at most. */
const BEFORE_MS = 10 * SECOND;
const AFTER_MS = 5 * SECOND;

/** Finds the receipts of one webhook by the provider's id, however old, each with its event if that is still kept. */
async function findReceipt(
  db: Database,
  from: readonly string[],
  id: string,
  limit: number,
): Promise<{ readonly items: readonly FoundReceipt[]; readonly next: null }> {
  const senders = from.map((provider) => ({ provider, topic: topicOf(provider) }));
  const found = await run<{ item: FoundReceipt }>(driverOf(db), {
    text: RECEIPT,
    values: [JSON.stringify(senders), id, BEFORE_MS, AFTER_MS],
  });
  return { items: found.slice(0, limit).map(({ item }) => item), next: null };
}

// Ids of events are UUIDv7, so their primary key finds the few that were recorded together with the receipt.
const RECEIPT = `
  with receipt as materialized (
    select webhook_receipts.*, topic, extract(epoch from received_at) * 1000 as received_ms
    from jsonb_to_recordset($1::text::jsonb) as sender (provider text, topic text)
      join webhook_receipts using (provider)
    where event_id = $2::text
  )
  select ${jsonOf(receiptFields)} as item
  from receipt left join lateral (
    select events.* from events
    where id > (lpad(to_hex((received_ms - $3::float8)::bigint), 12, '0') || repeat('0', 20))::uuid
      and id < (lpad(to_hex((received_ms + $4::float8)::bigint), 12, '0') || repeat('0', 20))::uuid
      and events.topic = receipt.topic and payload ->> 'eventId' = receipt.event_id
      and ${endpointOf('events')} = receipt.provider
    limit 1
  ) as event on true
  order by received_at desc, provider`;

/** Says what became of webhooks: of each that was delivered, the events that it caused, or why there are none. */
async function withEffects(db: Database, receipts: readonly FoundReceipt[]): Promise<WebhookReceipt[]> {
  const delivered = receipts.flatMap(({ eventId, state }) => (state === 'delivered' ? (eventId ?? []) : []));
  const effects = delivered.length === 0 ? [] : await effectsOf(db, delivered);
  return receipts.map((receipt) => {
    const emitted = effects
      .filter((effect) => effect.causedBy === receipt.eventId)
      .map(({ eventId, topic }) => ({ eventId, topic }));
    const became = becameOf(receipt, emitted.length);
    return { ...receipt, became, why: became === 'set_aside' ? receipt.why : null, emitted };
  });
}

function becameOf(
  { state, provider, eventType, why }: FoundReceipt,
  emitted: number,
): WebhookReceipt['became'] {
  if (state !== 'delivered') return state ?? 'no_longer_kept';
  if (why !== null) return 'set_aside';
  if (emitted > 0) return 'acted_on';
  return isStating(provider, eventType) ? 'nothing_new' : 'ignored';
}

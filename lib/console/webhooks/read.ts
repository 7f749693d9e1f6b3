import * as z from 'zod';

import { reconciliations } from '../../../drizzle/schema.ts';
import { UNCLAIMED_AFTER_MS } from '../../components/payments/set-aside.ts';
import { providers } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import type { Bus } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { COUNTED_SET_ASIDE, findProviders } from './providers.ts';
import { writeCursor } from './query.ts';
import type { Cursor, WebhookQuery } from './query.ts';
import { meaningOf } from './reasons.ts';
import { findReceipt } from './receipt.ts';
import { findReceived } from './received.ts';
import type { FoundReceipt, Place } from './received.ts';
import { findRefused } from './refused.ts';
import type { FoundRefusals } from './refused.ts';
import { findSetAside } from './set-aside.ts';
import type { FoundSetAside } from './set-aside.ts';

const nextCursor = z
  .string()
  .nullable()
  .meta({ description: 'The cursor of the older ones; null on the last page.' });

const providerEventId = z.string().meta({ description: 'The id that the provider gave the webhook.' });

const reconciliation = z
  .object({
    setting: z.enum(['on', 'off', 'misconfigured']).meta({
      description: 'Whether the provider is asked for webhooks that never came, in this deployment.',
    }),
    checkedAt: shape.instant
      .nullable()
      .meta({ description: 'When it was last asked for all that was due. Null: never.' }),
    nextAt: shape.instant.nullable().meta({ description: 'When it is asked next.' }),
    found: shape.count.meta({
      description: 'Webhooks that never came, or came later, since it was first asked.',
    }),
    foundAt: shape.instant.nullable(),
    failures: shape.count.meta({
      description: 'How often it failed in a row; 0: the last time it answered.',
    }),
    lastError: z
      .object({ at: shape.instant, message: z.string() })
      .nullable()
      .meta({ description: 'The last failure, also when it has answered since.' }),
  })
  .meta({ id: 'Reconciliation', description: 'The search for webhooks that never came.' });

const provider = z
  .object({
    provider: z.enum(providers),
    endpoint: z.enum(['configured', 'not_configured', 'misconfigured']).meta({
      description: 'Whether the endpoint has a usable secret; without one it refuses every webhook with 503.',
    }),
    scheme: z.string().nullable().meta({ description: 'How its webhooks are signed.' }),
    lastReceivedAt: shape.instant.nullable(),
    refusedToday: shape.count.meta({ description: 'Since midnight UTC.' }),
    setAside: shape.count.meta({ description: 'Webhooks that wait for their payment intent.' }),
    isMoreSetAside: z.boolean().meta({ description: 'Whether more wait than `setAside` counts.' }),
    reconciliation: reconciliation
      .nullable()
      .meta({ description: 'Null for a provider that cannot be asked.' }),
  })
  .meta({ id: 'WebhookProvider' });

const receipt = z
  .object({
    provider: z.enum(providers),
    providerEventId,
    eventType: z.string().nullable(),
    receivedAt: shape.instant,
    duplicates: shape.count.meta({ description: 'How often it was sent again; not emitted again.' }),
    mismatches: shape.count.meta({ description: 'Duplicates with another body.' }),
    lastDuplicateAt: shape.instant.nullable(),
    reconciledAt: shape.instant.nullable().meta({
      description:
        'When it was found in the provider’s API, because its webhook had not come; null if that came first.',
    }),
    eventId: z
      .uuid()
      .nullable()
      .meta({ description: 'Its event on the bus; null if that was deleted after the retention.' }),
    state: shape.state.nullable().meta({ description: 'The state of its event.' }),
  })
  .meta({ id: 'ReceivedWebhook' });

const refused = {
  provider: z
    .string()
    .meta({ description: 'A provider, or `unknown` for a request to an address of no provider.' }),
  reason: z.string(),
  meaning: z.string().meta({ description: 'What the reason means.' }),
};

const refusalsByReason = z
  .object({
    ...refused,
    today: shape.count.meta({ description: 'Since midnight UTC.' }),
    last30Days: shape.count,
    lastAt: shape.instant,
  })
  .meta({ id: 'WebhookRefusals', description: 'The refusals of one provider for one reason.' });

const setAside = z
  .object({
    provider: z.enum(providers),
    providerEventId,
    eventId: z.uuid(),
    intentId: z.string(),
    outcome: z.enum(['captured', 'failed', 'refunded']),
    setAsideAt: shape.instant,
    unclaimedAt: shape.instant.meta({
      description: 'When it becomes `payment.webhook.unclaimed`, unless its intent is recorded before.',
    }),
  })
  .meta({ id: 'WebhookSetAside', description: 'A webhook that waits for its payment intent.' });

export const webhookPage = z
  .object({
    generatedAt: shape.instant,
    filters: z.object({ provider: z.string().nullable(), id: z.string().nullable(), limit: shape.count }),
    providers: z.array(provider),
    receipts: z
      .object({ items: z.array(receipt), nextCursor })
      .meta({ description: 'Newest first, as far back as events are kept; by `id`, however old.' }),
    refusals: z
      .object({
        byReason: z.array(refusalsByReason).meta({ description: 'Of the last 30 days, the latest first.' }),
        items: z
          .array(z.object({ ...refused, refusedAt: shape.instant }).meta({ id: 'WebhookRefusal' }))
          .meta({ description: 'Newest first: of each day, provider and reason the newest 20.' }),
        nextCursor,
      })
      .meta({ description: 'Requests whose webhook was not stored. Written some ten seconds later.' }),
    setAside: z.object({ items: z.array(setAside), nextCursor }).meta({ description: 'Newest first.' }),
  })
  .meta({
    id: 'WebhookPage',
    description: 'What providers sent: receipts, refusals, and what was set aside.',
  });

export type WebhookPage = z.output<typeof webhookPage>;
export type Reconciliation = z.output<typeof reconciliation>;
export type WebhookProvider = WebhookPage['providers'][number];
export type WebhookReceipt = WebhookPage['receipts']['items'][number];
export type WebhookSetAside = WebhookPage['setAside']['items'][number];

/**
 * Lists what providers sent. A query for one id finds its receipts, and nothing else.
 *
 * @param now overrides the database's clock in tests, except for receipts.
 */
export async function readWebhooks(
  db: Database,
  endpoints: ReturnType<Bus['webhooks']>,
  query: WebhookQuery,
  now?: Date,
): Promise<WebhookPage> {
  const shown = endpoints.filter((one) => query.provider === undefined || one.provider === query.provider);
  const asked = shown.map(({ provider: name }) => name);
  const { id, limit } = query;
  const [found, received, refusals, aside, reconciled] = await Promise.all([
    findProviders(db, asked),
    id === undefined ? findReceived(db, asked, query) : findReceipt(db, asked, id),
    findRefused(db, query, now),
    id === undefined ? findSetAside(db, asked, query) : [],
    db.select().from(reconciliations),
  ]);
  return {
    generatedAt: instantOf(refusals.now),
    filters: { provider: query.provider ?? null, id: id ?? null, limit },
    providers: shown.map((endpoint) => {
      const { provider: name } = endpoint;
      const known = found.find((one) => one.provider === name);
      const counted = known?.set_aside ?? 0;
      return {
        ...endpoint,
        lastReceivedAt: instantOrNull(known?.last_received_at ?? null),
        refusedToday: refusals.by_reason
          .filter((one) => one.provider === name)
          .reduce((sum, { today }) => sum + today, 0),
        setAside: Math.min(counted, COUNTED_SET_ASIDE),
        isMoreSetAside: counted > COUNTED_SET_ASIDE,
        reconciliation: reconciliationOf(
          endpoint.reconciliation,
          reconciled.find((one) => one.provider === name),
        ),
      };
    }),
    receipts: pageOf(received, limit, receiptOf, placeOf),
    refusals: {
      byReason: refusals.by_reason.map(({ provider: sender, reason, today, month, last_at }) => ({
        provider: sender,
        reason,
        meaning: meaningOf(reason),
        today,
        last30Days: month,
        lastAt: instantOf(last_at),
      })),
      ...pageOf(id === undefined ? refusals.newest : [], limit, refusalOf, (last) => ({
        list: 'refusals',
        at: last.at,
        provider: last.provider,
        reason: last.reason,
      })),
    },
    setAside: pageOf(aside, limit, setAsideOf, ({ at, eventId }) => ({ list: 'setAside', at, eventId })),
  };
}

/** @param after the cursor behind a page's last row; null: there are no pages. */
function pageOf<Found, Item>(
  found: readonly Found[],
  limit: number,
  itemOf: (found: Found) => Item,
  after: (last: Found) => Cursor | null,
) {
  const shown = found.slice(0, limit);
  const last = found.length > limit ? shown.at(-1) : undefined;
  const cursor = last === undefined ? null : after(last);
  return { items: shown.map(itemOf), nextCursor: cursor && writeCursor(cursor) };
}

/** Of a query by id all receipts are on one page: each provider has at most one. */
function placeOf(last: FoundReceipt & Partial<Place>): Cursor | null {
  const { position, at, seq } = last;
  if (position) return { list: 'receipts', position };
  return at === undefined || seq === undefined ? null : { list: 'receipts', at, seq };
}

function reconciliationOf(
  setting: ReturnType<Bus['webhooks']>[number]['reconciliation'],
  found: typeof reconciliations.$inferSelect | undefined,
): WebhookProvider['reconciliation'] {
  if (setting === null) return null;
  const { error = null, failedAt = null } = found ?? {};
  return {
    setting,
    checkedAt: instantOrNull(found?.succeededAt ?? null),
    nextAt: setting === 'on' ? instantOrNull(found?.nextAt ?? null) : null,
    found: found?.found ?? 0,
    foundAt: instantOrNull(found?.foundAt ?? null),
    failures: found?.failures ?? 0,
    lastError: error === null || failedAt === null ? null : { at: instantOf(failedAt), message: error },
  };
}

function receiptOf(found: FoundReceipt): WebhookReceipt {
  return {
    provider: found.provider,
    providerEventId: found.provider_event_id,
    eventType: found.event_type,
    receivedAt: instantOf(found.received_at),
    duplicates: found.duplicates,
    mismatches: found.mismatches,
    lastDuplicateAt: instantOrNull(found.last_duplicate_at),
    reconciledAt: instantOrNull(found.reconciled_at),
    eventId: found.event_id,
    state: found.state,
  };
}

function refusalOf({ provider: sender, reason, refused_at }: FoundRefusals['newest'][number]) {
  return { provider: sender, reason, meaning: meaningOf(reason), refusedAt: instantOf(refused_at) };
}

function setAsideOf(found: FoundSetAside): WebhookSetAside {
  const { provider: sender, providerEventId: id, eventId, intentId, outcome, setAsideAt } = found;
  return {
    provider: sender,
    providerEventId: id,
    eventId,
    intentId,
    outcome: outcome.state,
    setAsideAt: instantOf(setAsideAt),
    unclaimedAt: instantOf(setAsideAt.getTime() + UNCLAIMED_AFTER_MS),
  };
}

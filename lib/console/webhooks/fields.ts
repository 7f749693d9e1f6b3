import * as z from 'zod';

import { eventState } from '../kit/event-state.ts';
import { computed, field, instant, instantOrNull, shapesOf } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';

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

/** More are counted as one more: what a busy account of another shop sends is set aside for three days. */
export const COUNTED_SET_ASIDE = 1000;

const today = shape.count.meta({ description: 'Since midnight UTC.' });

export const sentFields = {
  lastReceivedAt: instantOrNull('greatest(unplaced.created_at, placed.created_at)'),
  refusedToday: computed(today),
  setAside: field(
    shape.count.meta({
      description: 'Webhooks that wait for their payment intent, or for what makes them plausible.',
    }),
    `least(set_aside.count, ${COUNTED_SET_ASIDE})`,
  ),
  isMoreSetAside: field(
    z.boolean().meta({ description: 'Whether more wait than `setAside` counts.' }),
    `set_aside.count > ${COUNTED_SET_ASIDE}`,
  ),
};

const provider = z
  .object({
    provider: shape.endpointName,
    endpoint: z.enum(['configured', 'not_configured', 'misconfigured']).meta({
      description: 'Whether the endpoint has a usable secret; without one it refuses every webhook with 503.',
    }),
    scheme: z.string().nullable().meta({ description: 'How its webhooks are signed.' }),
    ...shapesOf(sentFields),
    reconciliation: reconciliation
      .nullable()
      .meta({ description: 'Null for a provider that cannot be asked.' }),
  })
  .meta({ id: 'WebhookProvider' });

/**
 * The endpoint that an event's webhook came by, in SQL. Events of releases before 1.2 do not say.
 *
 * @param event the alias of its row in `events`.
 */
export const endpointOf = (event: string) =>
  `coalesce(${event}.payload ->> 'endpoint', split_part(${event}.topic, '.', 2))`;

/** Of a receipt `receipt` and its event `event`: of either there may be none, but not of both. */
export const receiptFields = {
  provider: field(shape.endpointName, `coalesce(receipt.provider, ${endpointOf('event')})`),
  providerEventId: field(providerEventId, "coalesce(receipt.event_id, payload ->> 'eventId')"),
  eventType: field(z.string().nullable(), "coalesce(receipt.event_type, payload ->> 'eventType')"),
  receivedAt: instant('coalesce(receipt.received_at, event.created_at)'),
  duplicates: field(
    shape.count.meta({ description: 'How often it was sent again; not emitted again.' }),
    'coalesce(duplicates, 0)',
  ),
  mismatches: field(
    shape.count.meta({ description: 'Duplicates with another body.' }),
    'coalesce(body_mismatches, 0)',
  ),
  lastDuplicateAt: instantOrNull('last_duplicate_at'),
  reconciledAt: instantOrNull(
    'reconciled_at',
    'When it was found in the provider’s API, because its webhook had not come; null if that came first.',
  ),
  eventId: field(
    z
      .uuid()
      .nullable()
      .meta({ description: 'Its event on the bus; null if that was deleted after the retention.' }),
    'event.id',
  ),
  state: field(
    shape.state.nullable().meta({ description: 'The state of its event.' }),
    `case when event.id is not null then ${eventState('event')} end`,
  ),
};
const foundReceipt = z.object(shapesOf(receiptFields));
export type FoundReceipt = z.output<typeof foundReceipt>;

const receipt = foundReceipt
  .extend({
    became: z
      .enum([...shape.state.options, 'acted_on', 'nothing_new', 'ignored', 'set_aside', 'no_longer_kept'])
      .meta({
        description:
          'What became of it. `acted_on`: it caused the events of `emitted`. `nothing_new`: all that it states was known. `ignored`: its type means nothing here. `set_aside`: see `why`. Otherwise the state of its event.',
      }),
    why: z.string().nullable().meta({ description: 'Why it is set aside.' }),
    emitted: z
      .array(z.object({ eventId: z.uuid(), topic: z.string() }))
      .meta({ description: 'The events that it caused, oldest first.' }),
  })
  .meta({ id: 'ReceivedWebhook' });

const refused = {
  provider: field(
    z.string().meta({ description: 'An endpoint, or `unknown` for a request to an address of none.' }),
    'provider',
  ),
  reason: field(z.string(), 'reason'),
  meaning: computed(z.string().meta({ description: 'What the reason means.' })),
};

export const refusalFields = { ...refused, refusedAt: instant('refused_at') };
const refusal = z.object(shapesOf(refusalFields)).meta({ id: 'WebhookRefusal' });

export const byReasonFields = {
  ...refused,
  today: field(today, 'today'),
  last30Days: field(shape.count, 'last_30_days'),
  lastAt: instant('last_at'),
};
const refusalsByReason = z
  .object(shapesOf(byReasonFields))
  .meta({ id: 'WebhookRefusals', description: 'The refusals of one provider for one reason.' });

const setAside = z
  .object({
    provider: z.string(),
    providerEventId,
    eventId: z.uuid(),
    intentId: z
      .string()
      .meta({ description: 'Of an `unread` one the path of its object in the API of Stripe.' }),
    outcome: z
      .enum(['reserved', 'captured', 'failed', 'ended', 'refunded', 'refund', 'dispute', 'unread'])
      .meta({ description: 'The first thing that it states; `unread` before its object has been read.' }),
    reason: z.enum(['no_intent', 'not_plausible', 'unread']).meta({
      description:
        '`no_intent`: its payment intent is not recorded. `not_plausible`: it states what cannot be right as far as is known, and is an incident. `unread`: a thin event, whose object Stripe is asked for; an incident after ten minutes.',
    }),
    detail: z
      .string()
      .nullable()
      .meta({ description: 'What is not plausible, or why its object is not read.' }),
    setAsideAt: shape.instant,
    unclaimedAt: shape.instant.nullable().meta({
      description:
        'When it becomes `payment.webhook.unclaimed`, unless its intent is recorded before; null where that is recorded.',
    }),
  })
  .meta({ id: 'WebhookSetAside', description: 'A webhook that waits.' });

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
          .array(refusal)
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
export type WebhookProvider = z.output<typeof provider>;
export type WebhookReceipt = z.output<typeof receipt>;
export type WebhookRefusal = z.output<typeof refusal>;
export type WebhookRefusals = z.output<typeof refusalsByReason>;
export type WebhookSetAside = z.output<typeof setAside>;

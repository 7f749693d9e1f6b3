import * as z from 'zod';

import { providerOf, providers } from '../../platform/webhook-settings.ts';
import { cursorShape } from '../events/fields.ts';
import { count, cursorOf, field, instant, instantOrNull, shapesOf, text, textOrNull } from '../kit/fields.ts';
import { eventState } from '../kit/event-state.ts';
import { byText, select, shapesIn } from '../kit/filters.ts';
import type { Filters } from '../kit/filters.ts';
import * as shape from '../kit/shapes.ts';

export const webhookFilters = {
  provider: {
    shape: z
      .string()
      .refine(
        (name) => providerOf(name) !== undefined,
        `expected one of ${providers.join(', ')}, or a further account such as cardpayments_2`,
      )
      .describe('Only this endpoint: a provider, or a further account such as `cardpayments_2`.')
      .optional(),
    option: { value: '<name>', help: 'only this provider' },
    field: (name, value) =>
      select('Provider', name, value, [
        ['', 'All providers'],
        ...providers.map((one) => [one, one] as const),
      ]),
  },
  id: byText(
    'The provider’s id of a webhook',
    { value: '<id>', help: 'find one webhook by the id that its provider gave it, however old' },
    'evt_1QxK2m',
  ),
} satisfies Filters;

export const webhookQuery = z.object({
  ...shapesIn(webhookFilters),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});
export type WebhookQuery = z.output<typeof webhookQuery>;

/** Of a row in `reconciliations`, which may not be there yet. */
export const reconciliationFields = {
  checkedAt: instantOrNull('succeeded_at', 'When it was last asked for all that was due. Null: never.'),
  found: count('coalesce(found, 0)', 'Webhooks that never came, or came later, since it was first asked.'),
  failures: count('coalesce(failures, 0)', 'How often it failed in a row; 0: the last time it answered.'),
  lastError: textOrNull('error', 'The last failure, also when it has answered since.'),
};

const provider = z
  .object({
    provider: shape.endpointName,
    lastReceivedAt: shape.instant.nullable(),
    endpoint: z
      .enum(['configured', 'not_configured', 'misconfigured'])
      .describe('Whether the endpoint has a usable secret; without one it refuses every webhook with 503.'),
    scheme: z.string().nullable().describe('How its webhooks are signed.'),
    reconciliation: z
      .object({
        setting: z
          .enum(['on', 'off', 'misconfigured'])
          .describe('Whether the provider is asked for webhooks that never came, in this deployment.'),
        ...shapesOf(reconciliationFields),
      })
      .nullable()
      .describe('The search for webhooks that never came; null where a provider cannot be asked.'),
  })
  .meta({ id: 'WebhookProvider' });
export type WebhookProvider = z.output<typeof provider>;

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
  providerEventId: text(
    "coalesce(receipt.event_id, payload ->> 'eventId')",
    'The id that the provider gave the webhook.',
  ),
  eventType: textOrNull("coalesce(receipt.event_type, payload ->> 'eventType')"),
  receivedAt: instant('coalesce(receipt.received_at, event.created_at)'),
  duplicates: count('coalesce(duplicates, 0)', 'How often it was sent again; not emitted again.'),
  mismatches: count('coalesce(body_mismatches, 0)', 'Duplicates with another body.'),
  reconciledAt: instantOrNull(
    'reconciled_at',
    'When it was found in the provider’s API, because its webhook had not come; null if that came first.',
  ),
  eventId: field(
    z.uuid().nullable().describe('Its event on the bus; null if that was deleted after the retention.'),
    'event.id',
  ),
  state: field(
    shape.state.nullable().describe('The state of its event.'),
    `case when event.id is not null then ${eventState('event')} end`,
  ),
  why: textOrNull(
    `(
      select coalesce(detail, 'its payment intent is not recorded') from webhooks_set_aside as aside
      where aside.event_id = event.id
    )`,
    'Why it is set aside.',
  ),
};
const foundReceipt = z.object(shapesOf(receiptFields));
export type FoundReceipt = z.output<typeof foundReceipt>;

const receipt = foundReceipt
  .extend({
    became: z
      .enum([...shape.state.options, 'acted_on', 'nothing_new', 'ignored', 'set_aside', 'no_longer_kept'])
      .describe(
        'What became of it. `acted_on`: it caused the events of `emitted`. `nothing_new`: all that it states was known. `ignored`: its type means nothing here. `set_aside`: see `why`. Otherwise the state of its event.',
      ),
    emitted: z
      .array(z.object({ eventId: z.uuid(), topic: z.string() }))
      .describe('The events that it caused, oldest first.'),
  })
  .meta({ id: 'ReceivedWebhook' });
export type WebhookReceipt = z.output<typeof receipt>;

/** Of the refusals of one provider for one reason. */
export const refusalFields = {
  provider: text('provider', 'An endpoint, or `unknown` for a request to an address of none.'),
  reason: text(
    'reason',
    'Such as `signature_mismatch`: docs/operate.md says what each means, and what to do.',
  ),
  last30Days: count('last_30_days'),
  lastAt: instant('last_at'),
};
const refusals = z
  .object(shapesOf(refusalFields))
  .meta({ id: 'WebhookRefusals', description: 'The refusals of one provider for one reason.' });
export type WebhookRefusals = z.output<typeof refusals>;

export const setAsideFields = {
  provider: text('provider'),
  providerEventId: text('provider_event_id'),
  eventId: field(z.uuid(), 'event_id'),
  intentId: text('intent_id', 'Of an `unread` one the path of its object in the API of Stripe.'),
  outcome: text(
    `case when reason = 'unread' then reason else coalesce(statements -> 0 ->> 'kind', outcome ->> 'state') end`,
    'The first thing that it states; `unread` before its object has been read.',
  ),
  reason: field(
    z
      .enum(['no_intent', 'not_plausible', 'unread'])
      .describe(
        '`no_intent`: its payment intent is not recorded. `not_plausible`: it states what cannot be right as far as is known, and is an incident. `unread`: a thin event, whose object Stripe is asked for; an incident after ten minutes.',
      ),
    'reason',
  ),
  detail: textOrNull('detail', 'What is not plausible, or why its object is not read.'),
  setAsideAt: instant('set_aside_at'),
};
const setAside = z
  .object(shapesOf(setAsideFields))
  .meta({ id: 'WebhookSetAside', description: 'A webhook that waits.' });
export type WebhookSetAside = z.output<typeof setAside>;

export const webhookPage = z
  .object({
    generatedAt: shape.instant,
    filters: z.object(shapesIn(webhookFilters)),
    providers: z.array(provider),
    items: z
      .array(receipt)
      .describe('What was received, newest first, as far back as events are kept; by `id`, however old.'),
    nextCursor: z.string().nullable().describe('The cursor of older receipts; null on the last page.'),
    refusals: z
      .array(refusals)
      .describe('Of the last 30 days, the latest first. Written some ten seconds after a refusal.'),
    setAside: z.array(setAside).describe('The newest, as many as `limit`.'),
  })
  .meta({
    id: 'WebhookPage',
    description: 'What providers sent: receipts, refusals, and what was set aside.',
  });
export type WebhookPage = z.output<typeof webhookPage>;

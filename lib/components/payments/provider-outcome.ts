import * as z from 'zod';

import type { PaymentOutcome } from '../../../drizzle/schema.ts';

export type PaymentProvider = 'cardpayments' | 'walletpayments';

/** The body of a webhook does not match its type. */
export class MalformedWebhook extends Error {
  readonly code = 'malformed_webhook';
}

/**
 * Reads an intent's outcome from a provider's webhook.
 *
 * @returns null for a webhook without one: an unused type, a charge without an intent, an unsuccessful capture or refund.
 * @throws MalformedWebhook for a body that does not match its type.
 */
export function providerOutcome(
  provider: PaymentProvider,
  body: Record<string, unknown>,
): PaymentOutcome | null {
  return provider === 'cardpayments' ? cardOutcome(body) : walletOutcome(body);
}

// The same rules as in the topics' schemas: an outcome that no event can carry fails permanently here.
const currencyCode = z
  .string()
  .regex(/^[A-Za-z]{3}$/)
  .toUpperCase();
const amountMinor = z.int().nonnegative();
const providersId = z.string().min(1).max(255);

/** Stripe's event shape. https://docs.stripe.com/api/events/object */
const cardBody = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('payment_intent.succeeded'),
    data: z.object({
      object: z.object({ id: providersId, amount_received: amountMinor, currency: currencyCode }),
    }),
  }),
  z.object({
    type: z.literal('payment_intent.payment_failed'),
    data: z.object({
      object: z.object({
        id: providersId,
        last_payment_error: z
          .object({ code: z.string().min(1).optional().catch(undefined) })
          .nullish()
          .catch(null),
      }),
    }),
  }),
  z.object({
    type: z.literal('charge.refunded'),
    data: z.object({
      object: z.object({
        id: providersId.optional(),
        payment_intent: providersId.nullable(),
        amount_refunded: amountMinor,
        currency: currencyCode,
      }),
      previous_attributes: z.object({ amount_refunded: amountMinor }).optional().catch(undefined),
    }),
  }),
]);

const CARD_TYPES = cardBody.options.map(({ shape }) => shape.type.value);

/** Stripe's amounts are cumulative: `amount_received` of the intent, `amount_refunded` of each of its charges. */
function cardOutcome(body: Record<string, unknown>): PaymentOutcome | null {
  if (!isOneOf(body['type'], CARD_TYPES)) return null;
  const { type, data } = parseBody(cardBody, body);
  switch (type) {
    case 'payment_intent.succeeded': {
      const { id, amount_received, currency } = data.object;
      return {
        intentId: id,
        state: 'captured',
        part: '',
        amountMinor: amount_received,
        currency,
        isCumulative: true,
      };
    }
    case 'payment_intent.payment_failed':
      return {
        intentId: data.object.id,
        state: 'failed',
        reason: data.object.last_payment_error?.code ?? 'declined',
      };
    case 'charge.refunded': {
      const { id = '', payment_intent, amount_refunded, currency } = data.object;
      // A charge without an intent is another shop's: payments here always have one.
      if (payment_intent === null) return null;
      return {
        intentId: payment_intent,
        state: 'refunded',
        part: id,
        amountMinor: amount_refunded,
        currency,
        isCumulative: true,
        beforeMinor: data.previous_attributes?.amount_refunded,
      };
    }
  }
}

/** Vipps MobilePay's. https://developer.vippsmobilepay.com/docs/APIs/epayment-api/features/webhooks/ */
const walletBody = z.object({
  name: z.enum(['CAPTURED', 'REFUNDED', 'FAILED', 'ABORTED', 'EXPIRED', 'TERMINATED']),
  reference: providersId,
  pspReference: providersId.optional(),
  amount: z.object({ value: amountMinor, currency: currencyCode }).optional(),
  success: z.boolean().optional(),
});

/** The types of webhooks that can have an outcome; all others mean nothing here. */
export const OUTCOME_TYPES: Readonly<Record<PaymentProvider, readonly string[]>> = {
  cardpayments: CARD_TYPES,
  walletpayments: walletBody.shape.name.options,
};

/**
 * Vipps' amounts are those of a single capture or refund, each with a `pspReference` of its own.
 *
 * @see https://developer.vippsmobilepay.com/docs/APIs/epayment-api/api-guide/operations/get_event_log
 */
function walletOutcome(body: Record<string, unknown>): PaymentOutcome | null {
  if (!isOneOf(body['name'], walletBody.shape.name.options)) return null;
  const { name, reference, pspReference, amount, success } = parseBody(walletBody, body);
  if (name !== 'CAPTURED' && name !== 'REFUNDED') {
    return { intentId: reference, state: 'failed', reason: name.toLowerCase() };
  }
  // An unsuccessful capture or refund changes nothing.
  if (success === false) return null;
  if (!amount) throw new MalformedWebhook(`a ${name} without an amount`);
  // Without it, a second capture would count as the first one, and its amount would be lost.
  if (pspReference === undefined) throw new MalformedWebhook(`a ${name} without a pspReference`);
  return {
    intentId: reference,
    state: name === 'CAPTURED' ? 'captured' : 'refunded',
    part: pspReference,
    amountMinor: amount.value,
    currency: amount.currency,
    isCumulative: false,
  };
}

function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const parsed = schema.safeParse(body);
  if (!parsed.success)
    throw new MalformedWebhook(`the body does not match its type: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

function isOneOf(value: unknown, options: readonly string[]): boolean {
  return options.some((option) => option === value);
}

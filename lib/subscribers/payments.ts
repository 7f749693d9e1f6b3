import { and, eq, inArray, sql } from 'drizzle-orm';
import * as z from 'zod';

import { paymentIntents } from '../../drizzle/schema.ts';
import type { Database, Transaction } from '../db/connect.ts';
import { emit } from '../outbox/emit.ts';
import { MINUTE, SECOND } from '../time.ts';
import { PermanentError, RetryAfter } from './outcome.ts';
import { subscriber } from './subscriber.ts';
import type { BusEvent, TransactionalContext } from './subscriber.ts';

/** Turns payment providers' webhooks into what happened to a booking's payment. */
export const payments = subscriber(
  'payments',
  { 'webhook.cardpayments.received': handleWebhook, 'webhook.walletpayments.received': handleWebhook },
  { transactional: true },
);

export interface PaymentIntent {
  /** The provider's name for it: Stripe's `pi_…`, Vipps MobilePay's `reference`. */
  readonly id: string;
  readonly bookingId: string;
  readonly provider: 'cardpayments' | 'walletpayments';
  /** In the currency's smallest unit. */
  readonly amountMinor: number;
  /** ISO 4217. */
  readonly currency: string;
}

/**
 * Records a payment intent and emits `payment.intent.created`, both or neither.
 *
 * The model of a producer: the business row first, then the event, in one transaction.
 *
 * @returns the event's id.
 * @throws InvalidPayload when the intent is not one; the driver's error 23505 when its id is taken.
 */
export async function createPaymentIntent(db: Database, intent: PaymentIntent): Promise<{ eventId: string }> {
  return await db.transaction(async (tx) => {
    await tx.insert(paymentIntents).values(intent);
    const { id, ...rest } = intent;
    const event = await emit(tx, 'payment.intent.created', { intentId: id, ...rest });
    return { eventId: event.id };
  });
}

/** What a provider says has happened to an intent. */
type Outcome = { readonly intentId: string } & (
  | { readonly state: 'captured' | 'refunded'; readonly amountMinor: number; readonly currency: string }
  | { readonly state: 'failed'; readonly reason: string }
);

/** The webhook can overtake the transaction that records its intent: wait for that, but not longer. */
const UNKNOWN_INTENT_PATIENCE_MS = 1 * MINUTE;
const LOOK_AGAIN_MS = 5 * SECOND;

/**
 * Resolves a webhook's payment intent to its booking and emits the outcome, once per intent and outcome.
 *
 * @throws RetryAfter while the intent is unknown and the webhook younger than a minute; PermanentError after that, and
 *   for a body that is not what its type promises.
 *
 * @public
 */
export async function handleWebhook(
  event: BusEvent<'webhook.cardpayments.received' | 'webhook.walletpayments.received'>,
  { tx, attemptedAt }: TransactionalContext,
): Promise<void> {
  const provider = event.topic === 'webhook.cardpayments.received' ? 'cardpayments' : 'walletpayments';
  const outcome =
    provider === 'cardpayments' ? cardOutcome(event.payload.body) : walletOutcome(event.payload.body);
  if (!outcome) return;
  const [intent] = await tx
    .select({ bookingId: paymentIntents.bookingId, state: paymentIntents.state })
    .from(paymentIntents)
    .where(and(eq(paymentIntents.id, outcome.intentId), eq(paymentIntents.provider, provider)))
    .for('update');
  if (!intent) {
    const ageMs = attemptedAt.getTime() - event.createdAt.getTime();
    if (ageMs >= UNKNOWN_INTENT_PATIENCE_MS) throw new PermanentError('there is no such payment intent');
    throw new RetryAfter(
      Math.min(LOOK_AGAIN_MS, UNKNOWN_INTENT_PATIENCE_MS - ageMs),
      'the payment intent is not known yet',
    );
  }
  // Providers promise no order: after a capture an earlier attempt's failure is news to nobody.
  if (outcome.state === 'failed' && (intent.state === 'captured' || intent.state === 'refunded')) return;
  // It was emitted with the change to this state; that event may be pruned by now, and its dedupe key with it.
  if (intent.state === outcome.state) return;
  await recordOutcome(tx, outcome);
  const { intentId } = outcome;
  const common = {
    intentId,
    bookingId: intent.bookingId,
    provider,
    providerEventId: event.payload.eventId,
  } as const;
  const options = { dedupeKey: intentId, correlationId: event.correlationId, causationId: event.id };
  if (outcome.state === 'failed') {
    await emit(tx, 'payment.failed', { ...common, reason: outcome.reason }, options);
  } else {
    const { amountMinor, currency } = outcome;
    await emit(tx, `payment.${outcome.state}`, { ...common, amountMinor, currency }, options);
  }
}

/** The states that an outcome follows: what has been refunded does not become captured by a late message. */
const PRECEDING = {
  failed: ['created'],
  captured: ['created', 'failed'],
  refunded: ['created', 'failed', 'captured'],
} as const;

async function recordOutcome(tx: Transaction, { intentId, state }: Outcome): Promise<void> {
  await tx
    .update(paymentIntents)
    .set({ state, changedAt: sql`clock_timestamp()` })
    .where(and(eq(paymentIntents.id, intentId), inArray(paymentIntents.state, [...PRECEDING[state]])));
}

// What the topics' schemas ask: an outcome that no event can carry is a mistake of the sender's, not worth a retry.
const currencyCode = z
  .string()
  .regex(/^[A-Za-z]{3}$/)
  .toUpperCase();
const amountMinor = z.int().nonnegative();
const intentId = z.string().min(1).max(255);

/** Stripe's event shape. https://docs.stripe.com/api/events/object */
const cardBody = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('payment_intent.succeeded'),
    data: z.object({
      object: z.object({ id: intentId, amount_received: amountMinor, currency: currencyCode }),
    }),
  }),
  z.object({
    type: z.literal('payment_intent.payment_failed'),
    data: z.object({
      object: z.object({
        id: intentId,
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
        payment_intent: intentId,
        amount_refunded: amountMinor,
        currency: currencyCode,
      }),
    }),
  }),
]);

function cardOutcome(body: Record<string, unknown>): Outcome | null {
  if (
    !isOneOf(body['type'], ['payment_intent.succeeded', 'payment_intent.payment_failed', 'charge.refunded'])
  )
    return null;
  const { type, data } = understand(cardBody, body);
  switch (type) {
    case 'payment_intent.succeeded': {
      const { id, amount_received, currency } = data.object;
      return { intentId: id, state: 'captured', amountMinor: amount_received, currency };
    }
    case 'payment_intent.payment_failed':
      return {
        intentId: data.object.id,
        state: 'failed',
        reason: data.object.last_payment_error?.code ?? 'declined',
      };
    case 'charge.refunded': {
      const { payment_intent, amount_refunded, currency } = data.object;
      return { intentId: payment_intent, state: 'refunded', amountMinor: amount_refunded, currency };
    }
  }
}

/** Vipps MobilePay's. https://developer.vippsmobilepay.com/docs/APIs/epayment-api/features/webhooks/ */
const walletBody = z.object({
  name: z.enum(['CAPTURED', 'REFUNDED', 'FAILED', 'ABORTED', 'EXPIRED', 'TERMINATED']),
  reference: intentId,
  amount: z.object({ value: amountMinor, currency: currencyCode }).optional(),
  success: z.boolean().optional(),
});

function walletOutcome(body: Record<string, unknown>): Outcome | null {
  if (!isOneOf(body['name'], walletBody.shape.name.options)) return null;
  const { name, reference, amount, success } = understand(walletBody, body);
  // A capture or refund that was tried in vain changes nothing.
  if ((name === 'CAPTURED' || name === 'REFUNDED') && success === false) return null;
  if (name !== 'CAPTURED' && name !== 'REFUNDED') {
    return { intentId: reference, state: 'failed', reason: name.toLowerCase() };
  }
  if (!amount) throw new PermanentError(`a ${name} without an amount`);
  const state = name === 'CAPTURED' ? 'captured' : 'refunded';
  return { intentId: reference, state, amountMinor: amount.value, currency: amount.currency };
}

function understand<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const parsed = schema.safeParse(body);
  if (!parsed.success)
    throw new PermanentError(`the body is not what its type promises: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

function isOneOf(value: unknown, options: readonly string[]): boolean {
  return options.some((option) => option === value);
}

import { paymentIntents } from '../../drizzle/schema.ts';
import type { PaymentOutcome } from '../../drizzle/schema.ts';
import { emit } from '../bus/outbox/emit.ts';
import { PermanentError } from '../bus/subscribers/outcome.ts';
import { subscriber } from '../bus/subscribers/subscriber.ts';
import type { BusEvent, TransactionalContext } from '../bus/subscribers/subscriber.ts';
import type { Database } from '../platform/db/connect.ts';
import { emitOutcome } from './payments/emit-outcome.ts';
import { fenceIntent, lockIntent } from './payments/locked-intent.ts';
import { MalformedWebhook, providerOutcome } from './payments/provider-outcome.ts';
import type { PaymentProvider } from './payments/provider-outcome.ts';
import { setAside, takeUp } from './payments/set-aside.ts';

/** Turns payment providers' webhooks into the events of a booking's payment. */
export const payments = subscriber(
  'payments',
  { 'webhook.cardpayments.received': handleWebhook, 'webhook.walletpayments.received': handleWebhook },
  { transactional: true },
);

export interface PaymentIntent {
  /** The provider's id: Stripe's `pi_…`, Vipps MobilePay's `reference`. */
  readonly id: string;
  readonly bookingId: string;
  readonly provider: PaymentProvider;
  /** In the currency's smallest unit. */
  readonly amountMinor: number;
  /** ISO 4217. */
  readonly currency: string;
}

/**
 * Records a payment intent, emits `payment.intent.created`, and emits the outcomes that arrived before it: all or nothing.
 *
 * An example of a producer: the business row first, then the event, in one transaction.
 *
 * @returns the event's id.
 * @throws InvalidPayload for an invalid intent; the driver's error 23505 when its id is taken.
 */
export async function createPaymentIntent(db: Database, intent: PaymentIntent): Promise<{ eventId: string }> {
  return await db.transaction(async (tx) => {
    await tx.insert(paymentIntents).values(intent);
    const { id, ...rest } = intent;
    const event = await emit(tx, 'payment.intent.created', { intentId: id, ...rest });
    // Taken late, so that a webhook of this intent waits for little more than the commit.
    await fenceIntent(tx, intent.provider, id);
    await takeUp(tx, { ...intent, state: 'created', parts: [] });
    return { eventId: event.id };
  });
}

/**
 * Finds the booking of a webhook's payment intent and emits the part of a capture or refund that the webhook adds: each
 * part once, under any event id, in any order, and no matter how often it is replayed.
 *
 * A webhook can arrive before the transaction that records its intent commits, or belong to another shop on the same
 * account. It is then set aside, so that it holds back no other webhook.
 *
 * @throws PermanentError for a body that does not match its type.
 *
 * @public
 */
export async function handleWebhook(
  event: BusEvent<'webhook.cardpayments.received' | 'webhook.walletpayments.received'>,
  { tx, attemptedAt }: TransactionalContext,
): Promise<void> {
  const provider = event.topic === 'webhook.cardpayments.received' ? 'cardpayments' : 'walletpayments';
  const outcome = readOutcome(provider, event.payload.body);
  if (!outcome) return;
  const by = {
    eventId: event.id,
    providerEventId: event.payload.eventId,
    correlationId: event.correlationId,
  };
  let intent = await lockIntent(tx, provider, outcome.intentId);
  if (!intent) {
    await fenceIntent(tx, provider, outcome.intentId);
    intent = await lockIntent(tx, provider, outcome.intentId);
  }
  if (!intent) {
    const { createdAt, seq } = event;
    await setAside(tx, { ...by, provider, outcome, createdAt, seq, setAsideAt: attemptedAt });
    return;
  }
  // Set aside before the intent was recorded, and the cron has not run since.
  const current = intent.hasSetAside ? await takeUp(tx, intent) : intent;
  await emitOutcome(tx, current, outcome, by);
}

/** @throws PermanentError for a malformed body: no retry can fix it. */
function readOutcome(provider: PaymentProvider, body: Record<string, unknown>): PaymentOutcome | null {
  try {
    return providerOutcome(provider, body);
  } catch (error) {
    if (error instanceof MalformedWebhook) throw new PermanentError(error.message, { cause: error });
    throw error;
  }
}

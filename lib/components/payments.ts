import { paymentIntents } from '../../drizzle/schema.ts';
import { emit } from '../bus/outbox/emit.ts';
import { PermanentError } from '../bus/subscribers/outcome.ts';
import { subscriber } from '../bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent, TransactionalContext } from '../bus/subscribers/subscriber.ts';
import { webhookVariable } from '../platform/config.ts';
import type { PaymentSender } from '../platform/config.ts';
import type { Database } from '../platform/db/connect.ts';
import { isAccepted } from './payments/accept.ts';
import { MalformedWebhook } from './payments/body-fields.ts';
import { NotPlausible } from './payments/recorded-intent.ts';
import { fenceIntent, lockIntent } from './payments/locked-intent.ts';
import { providerStatements } from './payments/provider-statements.ts';
import type { PaymentProvider } from './payments/provider-statements.ts';
import { unexpectedIn } from './payments/sender.ts';
import { forget, setAside, setAsideUnread, takeUp } from './payments/set-aside.ts';
import { tell } from './payments/tell.ts';
import { readThinEvent } from './payments/thin-event.ts';

/**
 * Turns payment providers' webhooks into the events of a booking's payment.
 *
 * The data flows one way: a webhook's body → what it states of an intent, without a look at what is known
 * (`provider-statements.ts`) → the intent's row, locked, or without one the table of webhooks set aside → what of the
 * statements is new (`fold.ts`, a pure function) → the intent's record and the catalog's events, in the transaction of the
 * delivery (`tell.ts`). What was told is in the record, by the ids and totals of the provider: no event id decides.
 */
export function paymentsFrom(senders: PaymentSenders = {}): AttachedSubscriber {
  const handle = async (event: WebhookEvent, context: TransactionalContext) =>
    await handleWebhook(event, context, senders);
  return subscriber(
    'payments',
    { 'webhook.cardpayments.received': handle, 'webhook.walletpayments.received': handle },
    { transactional: true },
  );
}

/** Takes payments of any account, in any mode. */
export const payments = paymentsFrom();

type PaymentSenders = Readonly<Record<string, PaymentSender>>;
type WebhookEvent = BusEvent<'webhook.cardpayments.received' | 'webhook.walletpayments.received'>;

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
 * Records a payment intent, emits `payment.intent.created`, and tells what arrived before it: all or nothing.
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
    await takeUp(tx, { ...intent, state: 'created', parts: [], hasSetAside: true });
    return { eventId: event.id };
  });
}

/**
 * Finds the booking of a webhook's payment intent and emits what of the webhook is new: each fact once, under any event id,
 * in any order, and no matter how often it is replayed.
 *
 * A webhook can arrive before the transaction that records its intent commits, or belong to another shop on the same
 * account; a refund can arrive before its capture; a thin event names an object that Stripe is to be asked for. It is then
 * set aside, so that it holds back no other webhook.
 *
 * @throws PermanentError for a body that does not match its type, for one that nothing can make plausible, and for a thin event
 *   without a key.
 *
 * @public
 */
export async function handleWebhook(
  event: WebhookEvent,
  { tx, attemptedAt }: TransactionalContext,
  senders: PaymentSenders = {},
): Promise<void> {
  const provider: PaymentProvider =
    event.topic === 'webhook.cardpayments.received' ? 'cardpayments' : 'walletpayments';
  const { body, endpoint = provider } = event.payload;
  const sender = senders[endpoint];
  const thin = provider === 'cardpayments' ? read(() => readThinEvent(body)) : null;
  const stated = thin
    ? { intentId: thin.path, statements: [] }
    : read(() => providerStatements(provider, body));
  if (!stated) return;
  const { intentId, statements } = stated;
  const wrong = unexpectedIn(provider, thin?.account ? { ...body, account: thin.account } : body, sender);
  if (wrong !== null && !(await isAccepted(tx, event.id))) throw new PermanentError(refusalOf(wrong));
  const webhook = {
    eventId: event.id,
    providerEventId: event.payload.eventId,
    correlationId: event.correlationId,
    statements,
  };
  const { createdAt, seq } = event;
  const aside = { ...webhook, provider, intentId, createdAt, seq, setAsideAt: attemptedAt };
  if (thin) {
    // Taken as it is, it holds nothing: so an operator ends the waiting for an object that cannot be read.
    if (await isAccepted(tx, event.id)) return await forget(tx, event.id);
    if (!sender?.isAsked) throw new PermanentError(unreadable(body, endpoint));
    return await setAsideUnread(tx, aside, endpoint);
  }
  let intent = await lockIntent(tx, provider, intentId);
  if (!intent) {
    await fenceIntent(tx, provider, intentId);
    intent = await lockIntent(tx, provider, intentId);
  }
  if (!intent) return await setAside(tx, { ...aside, reason: 'no_intent' });
  let told = intent;
  try {
    told = await tell(tx, intent, webhook);
  } catch (error) {
    if (!(error instanceof NotPlausible)) throw error;
    if (await isAccepted(tx, event.id)) {
      await forget(tx, event.id);
      told = await tell(tx, intent, webhook, true);
    } else if (error.mayBecomePlausible)
      await setAside(tx, { ...aside, reason: 'not_plausible', detail: error.message });
    else throw new PermanentError(refusalOf(error.message), { cause: error });
  }
  if (told.hasSetAside) await takeUp(tx, told);
}

function refusalOf(wrong: string): string {
  return `${wrong}; it is no money until an operator accepts the webhook: npx postbud accept-webhook <eventId> --reason <text>`;
}

function unreadable({ type }: Readonly<Record<string, unknown>>, endpoint: string): string {
  return `${String(type)} is a thin event, which names an object and holds no amounts: set ${webhookVariable(endpoint, 'RECONCILE_KEY')} to a key of Stripe's that may read the object, deploy, and replay the event`;
}

/** @throws PermanentError for a malformed body: no retry can fix it. */
function read<Found>(from: () => Found): Found {
  try {
    return from();
  } catch (error) {
    if (error instanceof MalformedWebhook) throw new PermanentError(error.message, { cause: error });
    throw error;
  }
}

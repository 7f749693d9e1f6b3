import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import type { PaymentIntent } from '../../lib/components/payments.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { rows, emitAlone } from './bus.ts';

export const card: PaymentIntent = {
  id: 'pi_1',
  bookingId: 'bkg_1',
  provider: 'cardpayments',
  amountMinor: 125_000,
  currency: 'NOK',
};
export const wallet: PaymentIntent = {
  ...card,
  id: 'wallet-1',
  bookingId: 'bkg_2',
  provider: 'walletpayments',
};

/** An event of Stripe's about an object, in Norwegian kroner. */
export const cardOf = (type: string, object: object) => ({
  type,
  data: { object: { currency: 'nok', ...object } },
});

/** @param received all that was received of the intent until then. */
export const cardSucceeded = (id = card.id, received = 125_000) =>
  cardOf('payment_intent.succeeded', { id, amount: 125_000, amount_received: received });

export const cardFailed = (id = card.id, error: object | null = { code: 'expired_card' }) =>
  cardOf('payment_intent.payment_failed', { id, last_payment_error: error });

/** @param refunded all that was refunded of the charge until then. */
export const cardRefunded = (intent = card.id, refunded = 25_000, charge = 'ch_1') =>
  cardOf('charge.refunded', { id: charge, payment_intent: intent, amount_refunded: refunded });

/** @param left what can still be captured of the reservation, of which so much was received. */
export const cardReserved = (left: number, received = 0) =>
  cardOf('payment_intent.amount_capturable_updated', {
    id: card.id,
    amount_capturable: left,
    amount_received: received,
  });

/** A single refund of the charge `ch_1`. */
export const cardRefund = (id: string, amount: number, status: string, type = 'refund.updated') =>
  cardOf(type, { id, amount, status, charge: 'ch_1', payment_intent: card.id });

export const cardDispute = (status: string, created = 1, type = 'charge.dispute.updated') => ({
  ...cardOf(type, {
    id: 'dp_1',
    amount: 125_000,
    status,
    payment_intent: card.id,
    reason: 'fraudulent',
    evidence_details: { due_by: null },
  }),
  created,
});

/** Vipps MobilePay's. */
export const walletCallback = (name: string, more: object = {}) => ({
  msn: '123456',
  reference: wallet.id,
  pspReference: 'psp-1',
  name,
  amount: { currency: 'nok', value: 80_000 },
  success: true,
  ...more,
});

/** An operation on the wallet intent. */
export const walletPart = (name: string, pspReference: string, value: number) =>
  walletCallback(name, { pspReference, amount: { currency: 'NOK', value } });

let received = 0;

/** Emits what the intake emits for a provider's webhook, each under an event id of its own. @returns the event's id. */
export async function webhookOf(
  db: Database,
  provider: PaymentIntent['provider'],
  body: Record<string, unknown>,
): Promise<string> {
  received += 1;
  const named = body['type'] ?? body['name'];
  const eventType = typeof named === 'string' ? named : null;
  const { id } = await emitAlone(db, `webhook.${provider}.received`, {
    eventId: `evt_${received}`,
    eventType,
    body,
  });
  return id;
}

/** The events of the payments component but those of the intents' creation, oldest first: `captured 125000`. */
export async function told(db: Database): Promise<string[]> {
  const found = await rows<{ topic: TopicName; intent: string; amount: string | null }>(
    db,
    `select topic, payload ->> 'intentId' as intent, payload ->> 'amountMinor' as amount from events
     where starts_with(topic, 'payment.') and topic <> 'payment.intent.created' order by created_at, seq`,
  );
  return found.map(({ topic, intent, amount }) =>
    [intent, topic.slice('payment.'.length), amount].filter((word) => word !== null).join(' '),
  );
}

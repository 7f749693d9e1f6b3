import * as z from 'zod';

import type { DisputeOutcome, PaymentStatement } from '../../../drizzle/schema.ts';
import { amountMinor, currencyCode, parseBody, providersId, providersTime, word } from './body-fields.ts';
import type { Statements } from './body-fields.ts';

/**
 * Reads what a webhook in Stripe's event shape states. Amounts are totals: of the intent, of each of its charges.
 *
 * @see https://docs.stripe.com/api/events/types
 */
export function cardStatements(body: Readonly<Record<string, unknown>>): Statements | null {
  const { type } = body;
  const read = typeof type === 'string' && Object.hasOwn(READERS, type) ? READERS[type] : undefined;
  if (!read) return null;
  const { api_version: version, created: at, data } = parseBody(event, body);
  const isBeforeBasil = version !== null && version < BASIL;
  const { intentId, statements } = read(data.object, { at, isBeforeBasil });
  return intentId === null ? null : { intentId, statements };
}

/**
 * Until this version Stripe counted as refunded what it released of a reservation, with a `charge.refunded` and a refund of
 * its own. The event's version decides: since then the same body is a true refund.
 *
 * @see https://docs.stripe.com/changelog/basil
 */
const BASIL = '2025-03-31';

const event = z.object({
  api_version: word.nullable().catch(null),
  created: providersTime,
  data: z.object({ object: z.unknown() }),
});

/** The event that an object came in. */
interface Told {
  readonly at: string | null;
  readonly isBeforeBasil: boolean;
}

/** The intent is null where a charge has none: it is another shop's, since payments here always have one. */
type Read = (
  object: unknown,
  told: Told,
) => { readonly intentId: string | null; readonly statements: readonly PaymentStatement[] };

/** An id, or the object that it is expanded to. */
const expandable = z.union([providersId, z.object({ id: providersId }).transform(({ id }) => id)]).nullish();

const READERS: Readonly<Record<string, Read>> = {
  'payment_intent.amount_capturable_updated': reserved,
  'payment_intent.succeeded': succeeded,
  'payment_intent.payment_failed': attemptFailed,
  'payment_intent.canceled': cancelled,
  'charge.captured': chargeCaptured,
  'charge.expired': chargeExpired,
  'charge.refunded': chargeRefunded,
  'charge.refund.updated': refund,
  'refund.created': refund,
  'refund.updated': refund,
  'refund.failed': refund,
  'charge.dispute.created': dispute,
  'charge.dispute.updated': dispute,
  'charge.dispute.closed': dispute,
  'charge.dispute.funds_withdrawn': dispute,
  'charge.dispute.funds_reinstated': dispute,
};

export const CARD_TYPES: readonly string[] = Object.keys(READERS);

const intent = z.object({ id: providersId, currency: currencyCode });

/** With several captures the event comes for each of them but the last, with what is left and what was received. */
function reserved(object: unknown, { at }: Told) {
  const { id, currency, amount_capturable, amount_received, latest_charge } = parseBody(capturable, object);
  const captureUntil = latest_charge?.payment_method_details.card.capture_before;
  const total = amount_capturable + amount_received;
  return {
    intentId: id,
    statements: [
      { kind: 'reserved', at, amountMinor: total, currency, ...(captureUntil && { captureUntil }) } as const,
      capturedOf({ at, amountMinor: amount_received, currency }),
    ],
  };
}

const capturable = intent.extend({
  amount_capturable: amountMinor,
  amount_received: amountMinor.default(0),
  /** Expanded only where the object was read from the API. */
  latest_charge: z
    .object({ payment_method_details: z.object({ card: z.object({ capture_before: providersTime }) }) })
    .optional()
    .catch(undefined),
});

function succeeded(object: unknown, { at }: Told) {
  const { id, currency, amount_received } = parseBody(
    intent.extend({ amount_received: amountMinor }),
    object,
  );
  return { intentId: id, statements: [capturedOf({ at, amountMinor: amount_received, currency })] };
}

function capturedOf(money: {
  readonly at: string | null;
  readonly amountMinor: number;
  readonly currency: string;
}) {
  return { kind: 'captured', part: '', isTotal: true, ...money } as const;
}

function attemptFailed(object: unknown, { at }: Told) {
  const { id, last_payment_error: error } = parseBody(failedIntent, object);
  return { intentId: id, statements: [{ kind: 'failed', at, reason: error?.code ?? 'declined' } as const] };
}

const failedIntent = z.object({
  id: providersId,
  last_payment_error: z
    .object({ code: word.optional().catch(undefined) })
    .nullish()
    .catch(null),
});

function cancelled(object: unknown, { at }: Told) {
  const { id, currency, amount_received, latest_charge, charges, cancellation_reason } = parseBody(
    cancelledIntent,
    object,
  );
  return {
    intentId: id,
    statements: [
      capturedOf({ at, amountMinor: amount_received, currency }),
      {
        kind: 'ended',
        at,
        reason: cancellation_reason ?? 'cancelled',
        currency,
        // A charge may also be one that the bank declined.
        wasReserved: latest_charge === null || charges?.data.length === 0 ? false : null,
      } as const,
    ],
  };
}

const cancelledIntent = intent.extend({
  amount_received: amountMinor.default(0),
  latest_charge: expandable,
  /** Instead of `latest_charge`, before version 2022-11-15. */
  charges: z
    .object({ data: z.array(z.unknown()) })
    .optional()
    .catch(undefined),
  cancellation_reason: word.nullish().catch(null),
});

const charge = z.object({ id: providersId.default(''), payment_intent: expandable, currency: currencyCode });

function chargeCaptured(object: unknown, { at }: Told) {
  const {
    payment_intent: intentId = null,
    currency,
    amount_captured,
  } = parseBody(charge.extend({ amount_captured: amountMinor }), object);
  return { intentId, statements: [capturedOf({ at, amountMinor: amount_captured, currency })] };
}

function chargeExpired(object: unknown, { at }: Told) {
  const { payment_intent: intentId = null } = parseBody(charge, object);
  return { intentId, statements: [{ kind: 'ended', at, reason: 'expired', wasReserved: true } as const] };
}

function chargeRefunded(object: unknown, { at, isBeforeBasil }: Told) {
  const { id, payment_intent: intentId, currency, created, ...amounts } = parseBody(refundedCharge, object);
  const { amount, amount_refunded: refunded } = amounts;
  const captured = amounts.amount_captured ?? (amounts.captured === false ? 0 : undefined);
  const uncaptured = isBeforeBasil && amount !== undefined && captured !== undefined ? amount - captured : 0;
  // What is not captured yet, of several captures, has not been released.
  const released = refunded >= uncaptured ? uncaptured : 0;
  const statements: PaymentStatement[] = [];
  // Before the news of the capture itself, whose time is not known here, the charge's is the nearest.
  if (captured !== undefined) statements.push(capturedOf({ at: created, amountMinor: captured, currency }));
  if (isBeforeBasil && captured === 0)
    statements.push({ kind: 'ended', at, reason: 'cancelled', wasReserved: true });
  statements.push({
    kind: 'refunded',
    at,
    part: id,
    isTotal: true,
    amountMinor: refunded - released,
    currency,
    ...(captured !== undefined && { mostMinor: captured }),
  });
  return { intentId, statements };
}

const refundedCharge = charge.extend({
  created: providersTime,
  payment_intent: expandable.refine((id) => id !== undefined).transform((id) => id ?? null),
  amount: amountMinor.optional(),
  /** Before basil it is null where the payment was cancelled. */
  amount_captured: amountMinor.nullish(),
  captured: z.boolean().optional().catch(undefined),
  amount_refunded: amountMinor,
});

/** Before basil a refund may be what was released of a reservation: then only one that fails says that it was one. */
function refund(object: unknown, { at, isBeforeBasil }: Told) {
  const read = parseBody(singleRefund, object);
  const { id, amount, currency, status, failure_reason: why } = read;
  const hasFailed = status === 'failed' || status === 'canceled';
  const counts = hasFailed || (!isBeforeBasil && (status === 'succeeded' || status === 'pending'));
  const common = {
    kind: 'refund',
    at,
    part: id,
    charge: read.charge ?? '',
    amountMinor: amount,
    currency,
  } as const;
  return {
    intentId: read.payment_intent ?? null,
    statements: counts ? [{ ...common, ...(hasFailed && { failure: why ?? status }) }] : [],
  };
}

const singleRefund = z.object({
  id: providersId,
  amount: amountMinor,
  currency: currencyCode,
  charge: expandable,
  payment_intent: expandable,
  status: word.nullish(),
  failure_reason: word.nullish().catch(null),
});

function dispute(object: unknown, { at }: Told) {
  const read = parseBody(disputed, object);
  const { id, amount, currency, reason, status, evidence_details: evidence } = read;
  const outcome = status === null || status === undefined ? undefined : OUTCOMES[status];
  const common = { kind: 'dispute', at, part: id, reason, amountMinor: amount, currency } as const;
  return {
    intentId: read.payment_intent ?? null,
    statements: [
      { ...common, ...(evidence?.due_by && { evidenceUntil: evidence.due_by }), ...(outcome && { outcome }) },
    ],
  };
}

const disputed = z.object({
  id: providersId,
  amount: amountMinor,
  currency: currencyCode,
  payment_intent: expandable,
  reason: word.catch('general'),
  status: word.nullish(),
  evidence_details: z.object({ due_by: providersTime }).nullish().catch(null),
});

/** An inquiry that ends without a chargeback, and a dispute that Stripe prevented or a refund ended, are withdrawn. */
const OUTCOMES: Readonly<Record<string, DisputeOutcome>> = {
  won: 'won',
  lost: 'lost',
  warning_closed: 'withdrawn',
  prevented: 'withdrawn',
  charge_refunded: 'withdrawn',
};

import * as z from 'zod';
import { topic } from './topic.ts';
import { amountMinor, code, currency, email, freeText, id, instant, personal, reference } from './values.ts';

const provider = z.enum(['cardpayments', 'walletpayments']);

/** The provider's own id of its event, to find it in the provider's records. */
const providerEventId = reference;

/** When it happened, by the provider: days before the event where a webhook was lost. Absent where the provider gives no time. */
const occurredAt = instant.optional();

const unclaimed = z.object({
  intentId: id,
  provider,
  providerEventId,
  outcome: z.enum(['captured', 'failed', 'refunded']),
  amountMinor: amountMinor.optional(),
  currency: currency.optional(),
  setAsideAt: instant,
});

const reserved = z.object({
  intentId: id,
  bookingId: id,
  provider,
  amountMinor,
  currency,
  captureUntil: instant,
});

const dispute = z.object({
  disputeId: id,
  intentId: id,
  bookingId: id,
  amountMinor,
  currency,
});

const openedDispute = dispute.extend({
  // The bank's or the payer's own words.
  reason: personal(z.string()),
  evidenceUntil: instant,
});

export const payments = {
  'payment.intent.created': topic({
    producer: 'payments',
    subscribers: ['bookings', 'audit'],
    description: 'A payment intent was created with a card or mobile-wallet provider.',
    version: 1,
    listed: true,
    payload: z.object({ intentId: id, bookingId: id, provider, amountMinor, currency }),
    example: {
      intentId: 'pi_3QxSolvik48213',
      bookingId: 'bkg_48213',
      provider: 'cardpayments',
      amountMinor: 62_500,
      currency: 'NOK',
    },
  }),

  'payment.captured': topic({
    producer: 'payments',
    subscribers: ['bookings', 'ledger', 'notifications', 'accounting'],
    description: 'A payment is complete and ready for payout.',
    version: 1,
    listed: true,
    payload: z.object({
      intentId: id,
      bookingId: id,
      provider,
      amountMinor,
      currency,
      providerEventId,
      occurredAt,
    }),
    example: {
      intentId: 'pi_3QxSolvik48213',
      bookingId: 'bkg_48213',
      provider: 'cardpayments',
      amountMinor: 62_500,
      currency: 'NOK',
      providerEventId: 'evt_1QxK2mCaptured',
      occurredAt: '2026-02-20T09:59:58Z',
    },
  }),

  'payment.failed': topic({
    producer: 'payments',
    subscribers: ['bookings', 'notifications', 'audit'],
    description: 'A payment failed, for example an expired card or a decline.',
    version: 1,
    listed: true,
    payload: z.object({
      intentId: id,
      bookingId: id,
      provider,
      reason: code(z.string()),
      providerEventId,
      occurredAt,
    }),
    example: {
      intentId: 'pi_3QxSolvik48301',
      bookingId: 'bkg_48301',
      provider: 'cardpayments',
      reason: 'expired_card',
      providerEventId: 'evt_1QxK9sFailed',
      occurredAt: '2026-02-20T10:14:07Z',
    },
  }),

  'payment.refunded': topic({
    producer: 'payments',
    subscribers: ['bookings', 'ledger', 'notifications'],
    description: 'A refund is complete.',
    version: 1,
    listed: true,
    payload: z.object({
      intentId: id,
      bookingId: id,
      provider,
      amountMinor,
      currency,
      providerEventId,
      occurredAt,
    }),
    example: {
      intentId: 'bkg-48190-1',
      bookingId: 'bkg_48190',
      provider: 'walletpayments',
      amountMinor: 80_000,
      currency: 'NOK',
      providerEventId: 'REFUNDED:bkg-48190-1:10026640221',
      occurredAt: '2026-02-21T18:45:02Z',
    },
  }),

  'payment.refund.failed': topic({
    producer: 'payments',
    subscribers: ['bookings', 'ledger', 'notifications', 'accounting'],
    description: 'A refund failed after it was reported: the payer did not get the amount back.',
    version: 1,
    payload: z.object({
      refundId: id,
      intentId: id,
      bookingId: id,
      provider,
      amountMinor,
      currency,
      reason: code(z.string()),
      providerEventId,
      occurredAt,
    }),
    example: {
      refundId: 're_3QxSolvik48213',
      intentId: 'pi_3QxSolvik48213',
      bookingId: 'bkg_48213',
      provider: 'cardpayments',
      amountMinor: 62_500,
      currency: 'NOK',
      reason: 'expired_or_canceled_card',
      providerEventId: 'evt_1QxM4kRefundFailed',
      occurredAt: '2026-02-26T05:30:00Z',
    },
  }),

  'payment.webhook.unclaimed': topic({
    producer: 'payments',
    subscribers: ['support', 'audit'],
    description:
      'A payment webhook found no recorded intent within 72 hours: another shop on the same account made the payment, or its intent was lost.',
    version: 2,
    // The amount as the provider reports it: Stripe's is the total captured or refunded so far.
    payload: unclaimed.extend({
      outcome: z.enum(['reserved', 'captured', 'failed', 'ended', 'refunded', 'refund', 'dispute']),
      occurredAt,
    }),
    earlier: { 1: unclaimed },
    example: {
      intentId: 'pi_3QxAnotherShop77',
      provider: 'cardpayments',
      providerEventId: 'evt_1QxL7sStranger',
      outcome: 'captured',
      amountMinor: 19_900,
      currency: 'NOK',
      setAsideAt: '2026-02-20T09:12:44Z',
      occurredAt: '2026-02-20T09:12:40Z',
    },
  }),

  'payment.reserved': topic({
    producer: 'payments',
    subscribers: ['bookings', 'audit'],
    description: "An amount is reserved on the payer's card or wallet but not captured yet.",
    version: 2,
    // Webhooks seldom say until when: Stripe's cards hold a reservation for seven days at most, Vipps for 180.
    payload: reserved.extend({
      captureUntil: instant.optional(),
      providerEventId: providerEventId.optional(),
      occurredAt,
    }),
    earlier: { 1: reserved },
    example: {
      intentId: 'bkg-48190-1',
      bookingId: 'bkg_48190',
      provider: 'walletpayments',
      amountMinor: 80_000,
      currency: 'NOK',
      captureUntil: '2026-02-27T18:00:00Z',
      providerEventId: 'AUTHORIZED:bkg-48190-1:10026640219',
      occurredAt: '2026-02-20T18:00:00Z',
    },
  }),

  'payment.reservation.released': topic({
    producer: 'payments',
    subscribers: ['bookings', 'audit'],
    description:
      'A reservation was cancelled or expired before anything of it was captured: the venue is free again.',
    version: 1,
    payload: z.object({
      intentId: id,
      bookingId: id,
      provider,
      amountMinor,
      currency,
      reason: code(z.string()),
      providerEventId,
      occurredAt,
    }),
    example: {
      intentId: 'bkg-48190-1',
      bookingId: 'bkg_48190',
      provider: 'walletpayments',
      amountMinor: 80_000,
      currency: 'NOK',
      reason: 'cancelled',
      providerEventId: 'CANCELLED:bkg-48190-1:10026640220',
      occurredAt: '2026-02-21T08:10:00Z',
    },
  }),

  'payment.refund.requested': topic({
    producer: 'payments',
    subscribers: ['ledger', 'audit'],
    description: 'A refund was requested from the provider and is not confirmed yet.',
    version: 1,
    payload: z.object({
      refundId: id,
      intentId: id,
      bookingId: id,
      amountMinor,
      currency,
      requestedBy: id,
      reason: freeText.optional(),
    }),
    example: {
      refundId: 'rfd_2210',
      intentId: 'bkg-48190-1',
      bookingId: 'bkg_48190',
      amountMinor: 80_000,
      currency: 'NOK',
      requestedBy: 'usr_112',
      reason: 'Avlyst av leietaker innen fristen.',
    },
  }),

  'payment.link.sent': topic({
    producer: 'payments',
    subscribers: ['notifications', 'audit'],
    description: 'A payment link was created for a booking that was not paid at once.',
    version: 1,
    person: ['email'],
    payload: z.object({
      bookingId: id,
      intentId: id,
      amountMinor,
      currency,
      payUntil: instant,
      email: email.optional(),
    }),
    example: {
      bookingId: 'bkg_48301',
      intentId: 'pi_3QxSolvik48301',
      amountMinor: 45_000,
      currency: 'NOK',
      payUntil: '2026-02-23T22:59:59Z',
      email: 'jonas.eide@example.no',
    },
  }),

  'payment.deposit.held': topic({
    producer: 'payments',
    subscribers: ['bookings', 'ledger'],
    description: 'A deposit against damage is held for a booking.',
    version: 1,
    payload: z.object({ depositId: id, bookingId: id, amountMinor, currency, heldAt: instant }),
    example: {
      depositId: 'dep_318',
      bookingId: 'bkg_48330',
      amountMinor: 300_000,
      currency: 'NOK',
      heldAt: '2026-05-09T08:00:00Z',
    },
  }),

  'payment.deposit.released': topic({
    producer: 'payments',
    subscribers: ['bookings', 'ledger', 'notifications'],
    description: 'A deposit was returned, less any amount kept for damage.',
    version: 1,
    person: ['email'],
    payload: z.object({
      depositId: id,
      bookingId: id,
      releasedMinor: amountMinor,
      keptMinor: amountMinor,
      currency,
      keptBecause: freeText.optional(),
      email: email.optional(),
    }),
    example: {
      depositId: 'dep_318',
      bookingId: 'bkg_48330',
      releasedMinor: 250_000,
      keptMinor: 50_000,
      currency: 'NOK',
      keptBecause: 'Ekstra renhold av storsalen.',
      email: 'amir.haddad@example.no',
    },
  }),

  'payment.dispute.opened': topic({
    producer: 'payments',
    subscribers: ['support', 'ledger', 'notifications'],
    description: 'A payer disputed a card payment with their bank.',
    version: 2,
    // An inquiry of the bank may have no deadline.
    payload: openedDispute.extend({ evidenceUntil: instant.optional(), occurredAt }),
    earlier: { 1: openedDispute },
    example: {
      disputeId: 'dsp_41',
      intentId: 'pi_3QxSolvik47712',
      bookingId: 'bkg_47712',
      amountMinor: 98_000,
      currency: 'NOK',
      reason: 'unrecognized',
      evidenceUntil: '2026-03-12T23:59:59Z',
      occurredAt: '2026-03-02T11:20:00Z',
    },
  }),

  'payment.dispute.closed': topic({
    producer: 'payments',
    subscribers: ['support', 'ledger', 'accounting'],
    description: 'The bank decided a dispute.',
    version: 1,
    payload: dispute.extend({ outcome: z.enum(['won', 'lost', 'withdrawn']), occurredAt }),
    example: {
      disputeId: 'dsp_41',
      intentId: 'pi_3QxSolvik47712',
      bookingId: 'bkg_47712',
      outcome: 'won',
      amountMinor: 98_000,
      currency: 'NOK',
      occurredAt: '2026-04-20T07:00:00Z',
    },
  }),
};

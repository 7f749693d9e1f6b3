import * as z from 'zod';
import { topic } from './topic.ts';
import {
  amountMinor,
  code,
  count,
  currency,
  day,
  email,
  freeText,
  id,
  instant,
  list,
  reference,
} from './values.ts';

/** A Norwegian payment reference (KID): 2 to 25 digits, the last of which may be a dash. */
const paymentReference = code(z.string().regex(/^\d{1,24}[\d-]$/, 'expected a KID of 2 to 25 characters'));

export const invoicing = {
  'invoice.issued': topic({
    producer: 'invoicing',
    subscribers: ['ledger', 'notifications', 'accounting'],
    description: 'An invoice was issued to a citizen or an association.',
    version: 1,
    person: ['email'],
    payload: z.object({
      invoiceId: id,
      tenantId: id,
      bookingIds: list(id).min(1),
      amountMinor,
      vatMinor: amountMinor,
      currency,
      paymentReference,
      issuedOn: day,
      dueOn: day,
      email: email.optional(),
    }),
    example: {
      invoiceId: 'inv_20260188',
      tenantId: 'tnt_solvik',
      bookingIds: ['bkg_48401', 'bkg_48402'],
      amountMinor: 240_000,
      vatMinor: 0,
      currency: 'NOK',
      paymentReference: '202601881',
      issuedOn: '2026-03-02',
      dueOn: '2026-03-30',
      email: 'kasserer@furulia-il.example.no',
    },
  }),

  'invoice.delivered': topic({
    producer: 'invoicing',
    subscribers: ['accounting', 'audit'],
    description: "An invoice reached its receiver's access point, print shop or inbox.",
    version: 1,
    payload: z.object({
      invoiceId: id,
      channel: z.enum(['ehf', 'efaktura', 'email', 'letter']),
      deliveredAt: instant,
    }),
    example: { invoiceId: 'inv_20260188', channel: 'ehf', deliveredAt: '2026-03-02T06:11:47Z' },
  }),

  'invoice.paid': topic({
    producer: 'invoicing',
    subscribers: ['ledger', 'bookings', 'accounting'],
    description: 'An invoice is paid in full.',
    version: 1,
    payload: z.object({ invoiceId: id, tenantId: id, amountMinor, currency, paidOn: day, paymentReference }),
    example: {
      invoiceId: 'inv_20260188',
      tenantId: 'tnt_solvik',
      amountMinor: 240_000,
      currency: 'NOK',
      paidOn: '2026-03-24',
      paymentReference: '202601881',
    },
  }),

  'invoice.overdue': topic({
    producer: 'invoicing',
    subscribers: ['notifications', 'bookings'],
    description: 'The due date of an invoice passed without full payment.',
    version: 1,
    person: ['email'],
    payload: z.object({
      invoiceId: id,
      outstandingMinor: amountMinor,
      currency,
      dueOn: day,
      email: email.optional(),
    }),
    example: {
      invoiceId: 'inv_20260093',
      outstandingMinor: 96_000,
      currency: 'NOK',
      dueOn: '2026-02-16',
      email: 'post@nordvåg-korps.example.no',
    },
  }),

  'invoice.reminder.sent': topic({
    producer: 'invoicing',
    subscribers: ['ledger', 'audit'],
    description: 'A reminder with or without a fee was sent for an overdue invoice.',
    version: 1,
    orderingKey: ({ invoiceId }) => invoiceId,
    orderedBy: 'invoiceId',
    payload: z.object({
      invoiceId: id,
      reminder: z.int().positive(),
      feeMinor: amountMinor,
      currency,
      dueOn: day,
    }),
    example: {
      invoiceId: 'inv_20260093',
      reminder: 1,
      feeMinor: 3_500,
      currency: 'NOK',
      dueOn: '2026-03-09',
    },
  }),

  'invoice.credited': topic({
    producer: 'invoicing',
    subscribers: ['ledger', 'accounting', 'notifications'],
    description: 'A credit note cancelled an invoice in whole or in part.',
    version: 1,
    person: ['email'],
    payload: z.object({
      creditNoteId: id,
      invoiceId: id,
      amountMinor,
      currency,
      reason: freeText,
      email: email.optional(),
    }),
    example: {
      creditNoteId: 'crn_20260012',
      invoiceId: 'inv_20260188',
      amountMinor: 120_000,
      currency: 'NOK',
      reason: 'Hallen var stengt 14. mars på grunn av vannlekkasje.',
      email: 'kasserer@furulia-il.example.no',
    },
  }),

  'invoice.sent_to_collection': topic({
    producer: 'invoicing',
    subscribers: ['ledger', 'accounting', 'audit'],
    description: 'An unpaid invoice was handed over to debt collection.',
    version: 1,
    payload: z.object({
      invoiceId: id,
      outstandingMinor: amountMinor,
      currency,
      collectorReference: reference,
      sentAt: instant,
    }),
    example: {
      invoiceId: 'inv_20250911',
      outstandingMinor: 151_500,
      currency: 'NOK',
      collectorReference: 'INK-55120',
      sentAt: '2026-02-12T08:00:00Z',
    },
  }),

  'invoice.batch.completed': topic({
    producer: 'invoicing',
    subscribers: ['reporting', 'accounting'],
    description: 'A batch of e-invoices was sent.',
    version: 1,
    payload: z.object({
      batchId: id,
      tenantId: id,
      day,
      issued: count,
      refused: count,
      amountMinor,
      currency,
    }),
    example: {
      batchId: 'bat_2026_03_02_solvik',
      tenantId: 'tnt_solvik',
      day: '2026-03-02',
      issued: 87,
      refused: 2,
      amountMinor: 9_840_000,
      currency: 'NOK',
    },
  }),
};

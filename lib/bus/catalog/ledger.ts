import * as z from 'zod';
import { topic } from './topic.ts';
import { amountMinor, code, count, currency, day, freeText, id, instant, list, reference } from './values.ts';

export const ledger = {
  'ledger.entry.posted': topic({
    producer: 'ledger',
    subscribers: ['accounting', 'audit'],
    description: 'A balanced entry was posted to the ledger.',
    version: 1,
    payload: z.object({
      entryId: id,
      tenantId: id,
      postedAt: instant,
      currency,
      lines: list(
        z.object({
          account: code(z.string().regex(/^\d{4}$/, 'expected an account of four digits')),
          side: z.enum(['debit', 'credit']),
          amountMinor,
        }),
      ).min(2),
    }),
    example: {
      entryId: 'ent_90112',
      tenantId: 'tnt_solvik',
      postedAt: '2026-02-20T10:02:00Z',
      currency: 'NOK',
      lines: [
        { account: '1920', side: 'debit', amountMinor: 62_500 },
        { account: '3600', side: 'credit', amountMinor: 62_500 },
      ],
    },
  }),

  'ledger.balance.adjusted': topic({
    producer: 'ledger',
    subscribers: ['payouts', 'audit'],
    description: "A tenant's balance was corrected by hand.",
    version: 1,
    payload: z.object({
      adjustmentId: id,
      tenantId: id,
      side: z.enum(['debit', 'credit']),
      amountMinor,
      currency,
      adjustedBy: id,
      reason: freeText,
    }),
    example: {
      adjustmentId: 'adj_77',
      tenantId: 'tnt_nordvag',
      side: 'credit',
      amountMinor: 12_500,
      currency: 'NOK',
      adjustedBy: 'usr_204',
      reason: 'Gebyr trukket to ganger i januar.',
    },
  }),

  'ledger.reconciliation.completed': topic({
    producer: 'ledger',
    subscribers: ['accounting', 'reporting'],
    description: "A day's entries were compared with the payment providers' settlements.",
    version: 1,
    payload: z.object({
      reconciliationId: id,
      day,
      provider: z.enum(['cardpayments', 'walletpayments']),
      matched: count,
      unmatched: count,
    }),
    example: {
      reconciliationId: 'rec_2026_02_20_card',
      day: '2026-02-20',
      provider: 'cardpayments',
      matched: 214,
      unmatched: 1,
    },
  }),

  'ledger.discrepancy.found': topic({
    producer: 'ledger',
    subscribers: ['support', 'accounting', 'audit'],
    description: "An amount in the ledger differs from the provider's settlement.",
    version: 1,
    payload: z.object({
      reconciliationId: id,
      entryId: id.nullable(),
      providerReference: reference,
      expectedMinor: amountMinor,
      settledMinor: amountMinor,
      currency,
    }),
    example: {
      reconciliationId: 'rec_2026_02_20_card',
      entryId: 'ent_90087',
      providerReference: 'po_1QxSettlement0220',
      expectedMinor: 45_000,
      settledMinor: 44_100,
      currency: 'NOK',
    },
  }),

  'ledger.period.closed': topic({
    producer: 'ledger',
    subscribers: ['accounting', 'reporting', 'audit'],
    description: 'An accounting period was closed and takes no more entries.',
    version: 1,
    payload: z.object({
      tenantId: id,
      period: code(z.string().regex(/^\d{4}-\d{2}$/, 'expected a month, for example 2026-02')),
      entries: count,
      closedBy: id,
      closedAt: instant,
    }),
    example: {
      tenantId: 'tnt_solvik',
      period: '2026-01',
      entries: 3182,
      closedBy: 'usr_204',
      closedAt: '2026-02-05T13:30:00Z',
    },
  }),
};

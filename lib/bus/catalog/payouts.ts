import * as z from 'zod';
import { topic } from './topic.ts';
import { amountMinor, code, count, currency, day, email, id, instant, reference } from './values.ts';

export const payouts = {
  'payout.completed': topic({
    producer: 'ledger',
    subscribers: ['accounting', 'notifications'],
    description: 'A payout to the tenant is complete.',
    version: 1,
    listed: true,
    person: ['email'],
    payload: z.object({
      payoutId: id,
      tenantId: id,
      amountMinor,
      currency,
      completedAt: instant,
      bankReference: reference,
      email: email.optional(),
    }),
    example: {
      payoutId: 'pyo_1204',
      tenantId: 'tnt_solvik',
      amountMinor: 18_432_000,
      currency: 'NOK',
      completedAt: '2026-02-23T07:15:00Z',
      bankReference: 'POSTBUD-1204',
      email: 'okonomi@solvik.example.no',
    },
  }),

  'payout.scheduled': topic({
    producer: 'payouts',
    subscribers: ['ledger', 'tenants'],
    description: 'A payout to a tenant was scheduled with the payments it covers.',
    version: 1,
    payload: z.object({
      payoutId: id,
      tenantId: id,
      amountMinor,
      currency,
      payments: count,
      payoutDay: day,
    }),
    example: {
      payoutId: 'pyo_1204',
      tenantId: 'tnt_solvik',
      amountMinor: 18_432_000,
      currency: 'NOK',
      payments: 241,
      payoutDay: '2026-02-23',
    },
  }),

  'payout.started': topic({
    producer: 'payouts',
    subscribers: ['ledger', 'audit'],
    description: 'A payout was handed to the bank.',
    version: 1,
    payload: z.object({ payoutId: id, tenantId: id, amountMinor, currency, startedAt: instant }),
    example: {
      payoutId: 'pyo_1204',
      tenantId: 'tnt_solvik',
      amountMinor: 18_432_000,
      currency: 'NOK',
      startedAt: '2026-02-23T05:00:00Z',
    },
  }),

  'payout.failed': topic({
    producer: 'payouts',
    subscribers: ['ledger', 'notifications', 'support'],
    description: 'The bank returned a payout.',
    version: 1,
    person: ['email'],
    payload: z.object({
      payoutId: id,
      tenantId: id,
      amountMinor,
      currency,
      reason: z.enum(['account_closed', 'account_mismatch', 'limit_exceeded', 'bank_unavailable']),
      failedAt: instant,
      email: email.optional(),
    }),
    example: {
      payoutId: 'pyo_1205',
      tenantId: 'tnt_nordvag',
      amountMinor: 4_210_000,
      currency: 'NOK',
      reason: 'account_mismatch',
      failedAt: '2026-02-23T07:16:12Z',
      email: 'okonomi@nordvåg.example.no',
    },
  }),

  'payout.held': topic({
    producer: 'payouts',
    subscribers: ['tenants', 'notifications', 'audit'],
    description: 'A payout was withheld until a risk check or an account check is complete.',
    version: 1,
    person: ['email'],
    payload: z.object({
      payoutId: id,
      tenantId: id,
      cause: z.enum(['risk_review', 'account_not_verified', 'negative_balance']),
      heldAt: instant,
      email: email.optional(),
    }),
    example: {
      payoutId: 'pyo_1205',
      tenantId: 'tnt_nordvag',
      cause: 'account_not_verified',
      heldAt: '2026-02-24T06:00:00Z',
      email: 'okonomi@nordvåg.example.no',
    },
  }),

  'payout.account.verified': topic({
    producer: 'payouts',
    subscribers: ['tenants', 'audit'],
    description: "A tenant's bank account was verified as its own.",
    version: 1,
    payload: z.object({
      tenantId: id,
      accountId: id,
      lastDigits: code(z.string().regex(/^\d{4}$/, 'expected the last four digits of an account number')),
      verifiedAt: instant,
    }),
    example: {
      tenantId: 'tnt_nordvag',
      accountId: 'acc_19',
      lastDigits: '4417',
      verifiedAt: '2026-02-25T11:08:30Z',
    },
  }),
};

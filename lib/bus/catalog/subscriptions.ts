import * as z from 'zod';
import { topic } from './topic.ts';
import { amountMinor, currency, day, email, freeText, id, instant } from './values.ts';

const plan = z.enum(['basis', 'standard', 'pluss', 'storby']);

export const subscriptions = {
  'subscription.upgraded': topic({
    producer: 'subscriptions',
    subscribers: ['tenants', 'accounting', 'notifications'],
    description: 'A tenant moved to a higher plan.',
    version: 1,
    listed: true,
    person: ['email'],
    payload: z.object({
      subscriptionId: id,
      tenantId: id,
      fromPlan: plan,
      toPlan: plan,
      yearMinor: amountMinor,
      currency,
      effectiveOn: day,
      email: email.optional(),
    }),
    example: {
      subscriptionId: 'sub_solvik',
      tenantId: 'tnt_solvik',
      fromPlan: 'standard',
      toPlan: 'pluss',
      yearMinor: 24_900_000,
      currency: 'NOK',
      effectiveOn: '2026-04-01',
      email: 'postmottak@solvik.example.no',
    },
  }),

  'subscription.started': topic({
    producer: 'subscriptions',
    subscribers: ['tenants', 'accounting', 'notifications'],
    description: "A tenant's first subscription began.",
    version: 1,
    person: ['email'],
    payload: z.object({
      subscriptionId: id,
      tenantId: id,
      plan,
      yearMinor: amountMinor,
      currency,
      startsOn: day,
      email: email.optional(),
    }),
    example: {
      subscriptionId: 'sub_nordvag',
      tenantId: 'tnt_nordvag',
      plan: 'standard',
      yearMinor: 14_900_000,
      currency: 'NOK',
      startsOn: '2026-01-01',
      email: 'postmottak@nordvåg.example.no',
    },
  }),

  'subscription.downgraded': topic({
    producer: 'subscriptions',
    subscribers: ['tenants', 'accounting'],
    description: 'A tenant moved to a lower plan.',
    version: 1,
    payload: z.object({ subscriptionId: id, tenantId: id, fromPlan: plan, toPlan: plan, effectiveOn: day }),
    example: {
      subscriptionId: 'sub_fjellgrend',
      tenantId: 'tnt_fjellgrend',
      fromPlan: 'standard',
      toPlan: 'basis',
      effectiveOn: '2027-01-01',
    },
  }),

  'subscription.renewed': topic({
    producer: 'subscriptions',
    subscribers: ['accounting', 'invoicing'],
    description: 'A subscription was renewed for another year.',
    version: 1,
    payload: z.object({
      subscriptionId: id,
      tenantId: id,
      plan,
      yearMinor: amountMinor,
      currency,
      startsOn: day,
      endsOn: day,
    }),
    example: {
      subscriptionId: 'sub_solvik',
      tenantId: 'tnt_solvik',
      plan: 'pluss',
      yearMinor: 24_900_000,
      currency: 'NOK',
      startsOn: '2027-04-01',
      endsOn: '2028-03-31',
    },
  }),

  'subscription.cancelled': topic({
    producer: 'subscriptions',
    subscribers: ['tenants', 'accounting', 'notifications'],
    description: 'A tenant cancelled its subscription, which runs until its last day.',
    version: 1,
    person: ['email'],
    payload: z.object({
      subscriptionId: id,
      tenantId: id,
      cancelledAt: instant,
      lastDay: day,
      reason: freeText.optional(),
      email: email.optional(),
    }),
    example: {
      subscriptionId: 'sub_fjellgrend',
      tenantId: 'tnt_fjellgrend',
      cancelledAt: '2026-09-14T10:21:00Z',
      lastDay: '2026-12-31',
      reason: 'Kommunen slås sammen med Nordvåg.',
      email: 'postmottak@fjellgrend.example.no',
    },
  }),

  'subscription.limit.reached': topic({
    producer: 'subscriptions',
    subscribers: ['tenants', 'notifications', 'intelligence'],
    description: 'A tenant reached a limit of its plan.',
    version: 1,
    person: ['email'],
    payload: z.object({
      subscriptionId: id,
      tenantId: id,
      plan,
      limit: z.enum(['venues', 'case_handlers', 'bookings_per_month', 'sms_per_month']),
      allowed: z.int().positive(),
      email: email.optional(),
    }),
    example: {
      subscriptionId: 'sub_nordvag',
      tenantId: 'tnt_nordvag',
      plan: 'standard',
      limit: 'venues',
      allowed: 25,
      email: 'postmottak@nordvåg.example.no',
    },
  }),
};

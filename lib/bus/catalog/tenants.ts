import * as z from 'zod';
import { topic } from './topic.ts';
import { code, email, id, instant, list, personName, title } from './values.ts';

export const tenants = {
  'tenant.onboarded': topic({
    producer: 'tenants',
    subscribers: ['subscriptions', 'notifications', 'audit'],
    description: 'A municipality has all it needs to take bookings.',
    version: 1,
    person: ['email'],
    payload: z.object({
      tenantId: id,
      name: title,
      municipalityNumber: code(z.string().regex(/^\d{4}$/, 'expected a municipality number of four digits')),
      contactName: personName,
      onboardedAt: instant,
      email: email.optional(),
    }),
    example: {
      tenantId: 'tnt_nordvag',
      name: 'Nordvåg kommune',
      municipalityNumber: '9902',
      contactName: 'Sigrid Aasen',
      onboardedAt: '2026-01-08T12:00:00Z',
      email: 'sigrid.aasen@example.no',
    },
  }),

  'tenant.settings.changed': topic({
    producer: 'tenants',
    subscribers: ['bookings', 'payments', 'audit'],
    description: 'A tenant changed its settings for bookings, payments or approvals.',
    version: 1,
    orderingKey: ({ tenantId }) => tenantId,
    orderedBy: 'tenantId',
    payload: z.object({
      tenantId: id,
      changed: list(z.enum(['approval', 'cancellation', 'payment', 'invoicing', 'branding'])).min(1),
      changedBy: id,
      changedAt: instant,
    }),
    example: {
      tenantId: 'tnt_solvik',
      changed: ['approval', 'cancellation'],
      changedBy: 'usr_101',
      changedAt: '2026-02-03T09:44:00Z',
    },
  }),

  'tenant.domain.verified': topic({
    producer: 'tenants',
    subscribers: ['notifications', 'integrations'],
    description: 'A tenant proved that it owns the domain of its booking pages.',
    version: 1,
    payload: z.object({ tenantId: id, domain: code(z.string().min(3).max(253)), verifiedAt: instant }),
    example: {
      tenantId: 'tnt_nordvag',
      domain: 'leie.nordvåg.example.no',
      verifiedAt: '2026-01-07T14:20:11Z',
    },
  }),

  'tenant.member.invited': topic({
    producer: 'tenants',
    subscribers: ['notifications', 'identity', 'audit'],
    description: 'Someone was invited to work for a tenant on the platform.',
    version: 1,
    person: ['email'],
    payload: z.object({
      invitationId: id,
      tenantId: id,
      role: z.enum(['saksbehandler', 'driftsleder', 'tenant_admin']),
      invitedBy: id,
      validUntil: instant,
      name: personName,
      email: email.optional(),
    }),
    example: {
      invitationId: 'ivt_402',
      tenantId: 'tnt_solvik',
      role: 'driftsleder',
      invitedBy: 'usr_101',
      validUntil: '2026-03-01T12:00:00Z',
      name: 'Torstein Vik',
      email: 'torstein.vik@example.no',
    },
  }),

  'tenant.suspended': topic({
    producer: 'tenants',
    subscribers: ['bookings', 'payouts', 'notifications', 'audit'],
    description: 'A tenant was suspended: it takes no new bookings until further notice.',
    version: 1,
    person: ['email'],
    payload: z.object({
      tenantId: id,
      cause: z.enum(['unpaid_subscription', 'security', 'requested']),
      suspendedAt: instant,
      email: email.optional(),
    }),
    example: {
      tenantId: 'tnt_fjellgrend',
      cause: 'requested',
      suspendedAt: '2026-12-31T23:00:00Z',
      email: 'postmottak@fjellgrend.example.no',
    },
  }),

  'tenant.reactivated': topic({
    producer: 'tenants',
    subscribers: ['bookings', 'payouts', 'audit'],
    description: 'A suspended tenant takes bookings again.',
    version: 1,
    payload: z.object({ tenantId: id, reactivatedBy: id, reactivatedAt: instant }),
    example: {
      tenantId: 'tnt_fjellgrend',
      reactivatedBy: 'usr_9',
      reactivatedAt: '2027-01-11T08:00:00Z',
    },
  }),
};

import * as z from 'zod';
import { topic } from './topic.ts';
import { count, email, freeText, id, instant, list, personName, title } from './values.ts';

export const seasons = {
  'season.allocation.computed': topic({
    producer: 'seasons',
    subscribers: ['notifications', 'bookings'],
    description: 'The allocation of seasonal leases has run; teams and associations are to be told.',
    version: 1,
    listed: true,
    person: ['email'],
    payload: z.object({
      seasonId: id,
      allocationId: id,
      tenantId: id,
      applications: count,
      leases: list(
        z.object({
          leaseId: id,
          organizationId: id,
          resourceId: id,
          weekday: z.int().min(1).max(7),
          hoursPerWeek: z.number().positive(),
        }),
      ),
      unplacedApplicationIds: list(id),
      computedAt: instant,
      email: email.optional(),
    }),
    example: {
      seasonId: 'ssn_2026_2027',
      allocationId: 'alc_3',
      tenantId: 'tnt_solvik',
      applications: 3,
      leases: [
        {
          leaseId: 'lea_501',
          organizationId: 'org_furulia_il',
          resourceId: 'res_solvikhallen',
          weekday: 2,
          hoursPerWeek: 4.5,
        },
        {
          leaseId: 'lea_502',
          organizationId: 'org_nordvag_korps',
          resourceId: 'res_gamle_tinghus',
          weekday: 4,
          hoursPerWeek: 2,
        },
      ],
      unplacedApplicationIds: ['sap_1188'],
      computedAt: '2026-05-04T11:00:00Z',
      email: 'idrett@solvik.example.no',
    },
  }),

  'season.opened': topic({
    producer: 'seasons',
    subscribers: ['notifications', 'calendar'],
    description: 'Associations can apply for seasonal leases.',
    version: 1,
    payload: z.object({
      seasonId: id,
      tenantId: id,
      name: title,
      applyUntil: instant,
      resourceIds: list(id).min(1),
    }),
    example: {
      seasonId: 'ssn_2026_2027',
      tenantId: 'tnt_solvik',
      name: 'Høst 2026 – vår 2027',
      applyUntil: '2026-04-15T21:59:59Z',
      resourceIds: ['res_solvikhallen', 'res_strandveien_kunstgress'],
    },
  }),

  'season.application.submitted': topic({
    producer: 'seasons',
    subscribers: ['notifications', 'audit'],
    description: 'An association applied for a seasonal lease.',
    version: 1,
    person: ['email'],
    payload: z.object({
      applicationId: id,
      seasonId: id,
      organizationId: id,
      contactName: personName,
      members: count,
      wishes: list(
        z.object({
          resourceId: id,
          weekday: z.int().min(1).max(7),
          hoursPerWeek: z.number().positive(),
        }),
      ).min(1),
      note: freeText.optional(),
      email: email.optional(),
    }),
    example: {
      applicationId: 'sap_1187',
      seasonId: 'ssn_2026_2027',
      organizationId: 'org_furulia_il',
      contactName: 'Kari Lunde',
      members: 240,
      wishes: [{ resourceId: 'res_solvikhallen', weekday: 2, hoursPerWeek: 4.5 }],
      note: 'Vi deler gjerne hallen med håndballgruppa.',
      email: 'kari.lunde@example.no',
    },
  }),

  'season.application.withdrawn': topic({
    producer: 'seasons',
    subscribers: ['audit'],
    description: 'An association withdrew its application before the allocation.',
    version: 1,
    payload: z.object({ applicationId: id, seasonId: id, organizationId: id, withdrawnAt: instant }),
    example: {
      applicationId: 'sap_1190',
      seasonId: 'ssn_2026_2027',
      organizationId: 'org_solvik_turn',
      withdrawnAt: '2026-04-12T15:00:00Z',
    },
  }),

  'season.closed': topic({
    producer: 'seasons',
    subscribers: ['reporting', 'audit'],
    description: 'The application period for seasonal leases ended.',
    version: 1,
    payload: z.object({ seasonId: id, tenantId: id, applications: count, closedAt: instant }),
    example: {
      seasonId: 'ssn_2026_2027',
      tenantId: 'tnt_solvik',
      applications: 64,
      closedAt: '2026-04-15T22:00:00Z',
    },
  }),

  'season.lease.accepted': topic({
    producer: 'seasons',
    subscribers: ['bookings', 'invoicing', 'calendar'],
    description: 'An association accepted the seasonal lease it was offered.',
    version: 1,
    payload: z.object({
      leaseId: id,
      seasonId: id,
      organizationId: id,
      resourceId: id,
      acceptedBy: id,
      acceptedAt: instant,
    }),
    example: {
      leaseId: 'lea_501',
      seasonId: 'ssn_2026_2027',
      organizationId: 'org_furulia_il',
      resourceId: 'res_solvikhallen',
      acceptedBy: 'usr_3071',
      acceptedAt: '2026-05-06T18:03:00Z',
    },
  }),

  'season.lease.declined': topic({
    producer: 'seasons',
    subscribers: ['bookings', 'notifications'],
    description: 'An association declined the seasonal lease it was offered.',
    version: 1,
    person: ['email'],
    payload: z.object({
      leaseId: id,
      seasonId: id,
      organizationId: id,
      declinedAt: instant,
      reason: freeText.optional(),
      email: email.optional(),
    }),
    example: {
      leaseId: 'lea_502',
      seasonId: 'ssn_2026_2027',
      organizationId: 'org_nordvag_korps',
      declinedAt: '2026-05-07T17:45:00Z',
      reason: 'Torsdag passer dessverre ikke for aspirantene.',
      email: 'idrett@solvik.example.no',
    },
  }),

  'season.lease.terminated': topic({
    producer: 'seasons',
    subscribers: ['bookings', 'invoicing', 'notifications'],
    description: 'A seasonal lease ended before its season did.',
    version: 1,
    person: ['email'],
    payload: z.object({
      leaseId: id,
      seasonId: id,
      organizationId: id,
      terminatedBy: z.enum(['association', 'tenant']),
      lastUseAt: instant,
      email: email.optional(),
    }),
    example: {
      leaseId: 'lea_488',
      seasonId: 'ssn_2025_2026',
      organizationId: 'org_solvik_turn',
      terminatedBy: 'association',
      lastUseAt: '2026-03-31T20:00:00Z',
      email: 'leder@solvik-turn.example.no',
    },
  }),
};

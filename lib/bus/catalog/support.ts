import * as z from 'zod';
import { topic } from './topic.ts';
import { email, freeText, id, instant, list } from './values.ts';

const severity = z.enum(['low', 'normal', 'high', 'critical']);

export const support = {
  'support.case.opened': topic({
    producer: 'support',
    subscribers: ['notifications', 'audit'],
    description: 'A support case was opened by a citizen, a tenant or another component.',
    version: 1,
    person: ['email'],
    payload: z.object({
      caseId: id,
      tenantId: id.optional(),
      openedBy: z.enum(['citizen', 'tenant', 'platform']),
      severity,
      subject: freeText,
      openedAt: instant,
      email: email.optional(),
    }),
    example: {
      caseId: 'cas_6104',
      tenantId: 'tnt_nordvag',
      openedBy: 'tenant',
      severity: 'high',
      subject: 'Utbetalingen for februar kom i retur',
      openedAt: '2026-02-23T08:02:00Z',
      email: 'okonomi@nordvåg.example.no',
    },
  }),

  'support.case.answered': topic({
    producer: 'support',
    subscribers: ['notifications'],
    description: 'Support answered a case.',
    version: 1,
    person: ['email'],
    payload: z.object({
      caseId: id,
      answeredBy: id,
      text: freeText,
      answeredAt: instant,
      email: email.optional(),
    }),
    example: {
      caseId: 'cas_6104',
      answeredBy: 'usr_9',
      text: 'Kontonummeret var skrevet feil. Vi har bedt om en ny kontroll.',
      answeredAt: '2026-02-23T09:15:00Z',
      email: 'okonomi@nordvåg.example.no',
    },
  }),

  'support.case.escalated': topic({
    producer: 'support',
    subscribers: ['notifications', 'tenants', 'audit'],
    description: 'A support case was escalated to people who can decide or fix it.',
    version: 1,
    person: ['escalatedTo', 'email'],
    payload: z.object({
      caseId: id,
      fromSeverity: severity,
      toSeverity: severity,
      escalatedTo: id,
      escalatedAt: instant,
      email: email.optional(),
    }),
    example: {
      caseId: 'cas_6104',
      fromSeverity: 'high',
      toSeverity: 'critical',
      escalatedTo: 'usr_204',
      escalatedAt: '2026-02-24T07:30:00Z',
      email: 'ingrid.moen@example.no',
    },
  }),

  'support.case.resolved': topic({
    producer: 'support',
    subscribers: ['notifications', 'reporting'],
    description: 'A support case was resolved, or closed without a solution.',
    version: 1,
    person: ['email'],
    payload: z.object({
      caseId: id,
      outcome: z.enum(['resolved', 'duplicate', 'no_reply', 'not_ours']),
      resolvedAt: instant,
      openSeconds: z.int().nonnegative(),
      email: email.optional(),
    }),
    example: {
      caseId: 'cas_6104',
      outcome: 'resolved',
      resolvedAt: '2026-02-25T11:30:00Z',
      openSeconds: 185_280,
      email: 'okonomi@nordvåg.example.no',
    },
  }),

  'support.incident.declared': topic({
    producer: 'support',
    subscribers: ['notifications', 'tenants', 'audit'],
    description: 'A disruption that affects many tenants was declared an incident.',
    version: 1,
    payload: z.object({
      incidentId: id,
      severity,
      affected: list(z.enum(['booking', 'payment', 'login', 'access_control', 'messaging'])).min(1),
      declaredAt: instant,
    }),
    example: {
      incidentId: 'inc_2026_04',
      severity: 'critical',
      affected: ['payment', 'booking'],
      declaredAt: '2026-02-27T13:04:00Z',
    },
  }),
};

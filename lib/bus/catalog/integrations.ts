import * as z from 'zod';
import { topic } from './topic.ts';
import { count, email, id, instant, personal, reference } from './values.ts';

const system = z.enum(['archive', 'accounting', 'access_control', 'calendar', 'business_register']);

export const integrations = {
  'integration.connected': topic({
    producer: 'integrations',
    subscribers: ['tenants', 'audit'],
    description: 'A tenant connected one of its own systems to the platform.',
    version: 1,
    payload: z.object({ integrationId: id, tenantId: id, system, connectedBy: id, connectedAt: instant }),
    example: {
      integrationId: 'itg_solvik_archive',
      tenantId: 'tnt_solvik',
      system: 'archive',
      connectedBy: 'usr_101',
      connectedAt: '2026-01-14T10:00:00Z',
    },
  }),

  'integration.disconnected': topic({
    producer: 'integrations',
    subscribers: ['tenants', 'notifications', 'audit'],
    description:
      "A tenant's system was disconnected by a person, or because it refused the platform's requests.",
    version: 1,
    person: ['email'],
    payload: z.object({
      integrationId: id,
      tenantId: id,
      system,
      cause: z.enum(['person', 'refused', 'credentials_expired']),
      disconnectedAt: instant,
      email: email.optional(),
    }),
    example: {
      integrationId: 'itg_nordvag_calendar',
      tenantId: 'tnt_nordvag',
      system: 'calendar',
      cause: 'credentials_expired',
      disconnectedAt: '2026-02-11T00:00:00Z',
      email: 'ikt@nordvåg.example.no',
    },
  }),

  'integration.sync.completed': topic({
    producer: 'integrations',
    subscribers: ['reporting'],
    description: "Records were exchanged with a tenant's system.",
    version: 1,
    orderingKey: ({ integrationId }) => integrationId,
    orderedBy: 'integrationId',
    payload: z.object({ integrationId: id, sent: count, received: count, completedAt: instant }),
    example: {
      integrationId: 'itg_solvik_accounting',
      sent: 87,
      received: 12,
      completedAt: '2026-03-02T06:20:00Z',
    },
  }),

  'integration.sync.failed': topic({
    producer: 'integrations',
    subscribers: ['support', 'notifications'],
    description: "An exchange of records with a tenant's system failed.",
    version: 1,
    person: ['email'],
    payload: z.object({
      integrationId: id,
      tenantId: id,
      system,
      error: personal(z.string().min(1).max(2000)),
      failedAt: instant,
      email: email.optional(),
    }),
    example: {
      integrationId: 'itg_solvik_accounting',
      tenantId: 'tnt_solvik',
      system: 'accounting',
      error: 'The accounting system answered 503 three times.',
      failedAt: '2026-03-03T06:20:41Z',
      email: 'ikt@solvik.example.no',
    },
  }),

  'integration.credentials.expiring': topic({
    producer: 'integrations',
    subscribers: ['notifications', 'tenants'],
    description: 'The key or certificate of an integration expires within 30 days.',
    version: 1,
    person: ['email'],
    payload: z.object({
      integrationId: id,
      tenantId: id,
      system,
      expiresAt: instant,
      email: email.optional(),
    }),
    example: {
      integrationId: 'itg_nordvag_calendar',
      tenantId: 'tnt_nordvag',
      system: 'calendar',
      expiresAt: '2026-02-11T00:00:00Z',
      email: 'ikt@nordvåg.example.no',
    },
  }),

  'integration.archive.deposited': topic({
    producer: 'integrations',
    subscribers: ['bookings', 'audit'],
    description: "A decision and its papers were filed in the tenant's public-records archive (Noark 5).",
    version: 1,
    payload: z.object({
      integrationId: id,
      bookingId: id,
      archiveReference: reference,
      documents: count,
      depositedAt: instant,
    }),
    example: {
      integrationId: 'itg_solvik_archive',
      bookingId: 'bkg_48213',
      archiveReference: '2026/1182-3',
      documents: 2,
      depositedAt: '2026-02-20T09:13:30Z',
    },
  }),

  'integration.door_lock.offline': topic({
    producer: 'integrations',
    subscribers: ['resources', 'support', 'notifications'],
    description: "A venue's door lock stopped answering, so door codes may not open it.",
    version: 1,
    person: ['email'],
    payload: z.object({
      integrationId: id,
      lockId: id,
      resourceId: id,
      lastSeenAt: instant,
      email: email.optional(),
    }),
    example: {
      integrationId: 'itg_solvik_locks',
      lockId: 'lck_hovedinngang',
      resourceId: 'res_solvikhallen',
      lastSeenAt: '2026-03-14T22:10:00Z',
      email: 'torstein.vik@example.no',
    },
  }),
};

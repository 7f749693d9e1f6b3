import * as z from 'zod';
import { topic } from './topic.ts';
import { code, count, day, email, id, instant, reference } from './values.ts';

const kind = z.enum(['occupancy', 'revenue', 'children_and_youth', 'cancellations', 'kostra']);

export const reporting = {
  'report.requested': topic({
    producer: 'reporting',
    subscribers: ['audit'],
    description: 'A report was requested by a person or by its schedule.',
    version: 1,
    payload: z.object({
      reportId: id,
      tenantId: id,
      kind,
      from: day,
      to: day,
      requestedBy: z.enum(['person', 'schedule']),
    }),
    example: {
      reportId: 'rpt_3301',
      tenantId: 'tnt_solvik',
      kind: 'occupancy',
      from: '2026-01-01',
      to: '2026-01-31',
      requestedBy: 'person',
    },
  }),

  'report.generated': topic({
    producer: 'reporting',
    subscribers: ['notifications', 'tenants'],
    description: 'A report is ready.',
    version: 1,
    person: ['email'],
    payload: z.object({
      reportId: id,
      tenantId: id,
      kind,
      rows: count,
      generatedAt: instant,
      url: code(z.url()),
      email: email.optional(),
    }),
    example: {
      reportId: 'rpt_3301',
      tenantId: 'tnt_solvik',
      kind: 'occupancy',
      rows: 1240,
      generatedAt: '2026-02-02T06:03:20Z',
      url: 'https://booking.example.no/reports/rpt_3301',
      email: 'ingrid.moen@example.no',
    },
  }),

  'report.failed': topic({
    producer: 'reporting',
    subscribers: ['notifications', 'support'],
    description: 'A report could not be generated.',
    version: 1,
    person: ['email'],
    payload: z.object({
      reportId: id,
      tenantId: id,
      kind,
      cause: z.enum(['too_large', 'source_unavailable', 'internal']),
      failedAt: instant,
      email: email.optional(),
    }),
    example: {
      reportId: 'rpt_3302',
      tenantId: 'tnt_nordvag',
      kind: 'revenue',
      cause: 'source_unavailable',
      failedAt: '2026-02-02T06:09:00Z',
      email: 'okonomi@nordvåg.example.no',
    },
  }),

  'report.statistics.submitted': topic({
    producer: 'reporting',
    subscribers: ['tenants', 'audit'],
    description: "A tenant's yearly figures were handed to the national statistics (KOSTRA).",
    version: 1,
    payload: z.object({
      submissionId: id,
      tenantId: id,
      year: z.int().min(2000).max(2100),
      receipt: reference,
      submittedAt: instant,
    }),
    example: {
      submissionId: 'kos_2025_solvik',
      tenantId: 'tnt_solvik',
      year: 2025,
      receipt: 'KOSTRA-2025-99010',
      submittedAt: '2026-02-13T09:00:00Z',
    },
  }),
};

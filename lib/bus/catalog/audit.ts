import * as z from 'zod';
import { topic } from './topic.ts';
import { code, count, day, email, id, instant, list } from './values.ts';

const purpose = z.enum(['marketing', 'statistics', 'recommendations', 'sms']);

export const audit = {
  'audit.gdpr.export_requested': topic({
    producer: 'audit',
    subscribers: ['audit', 'notifications'],
    description: "An export of a data subject's data was started.",
    version: 1,
    listed: true,
    person: ['userId', 'email'],
    payload: z.object({
      exportId: id,
      userId: id,
      requestedBy: z.enum(['data_subject', 'case_handler']),
      requestedAt: instant,
      dueAt: instant,
      email: email.optional(),
    }),
    example: {
      exportId: 'gex_88',
      userId: 'usr_3071',
      requestedBy: 'data_subject',
      requestedAt: '2026-02-26T20:30:00Z',
      dueAt: '2026-03-26T20:30:00Z',
      email: 'kari.lunde@example.no',
    },
  }),

  'audit.gdpr.deletion_scheduled': topic({
    producer: 'audit',
    subscribers: ['audit', 'notifications', 'identity'],
    description: 'A deletion is scheduled after its grace period.',
    version: 1,
    listed: true,
    person: ['userId', 'email'],
    payload: z.object({
      deletionId: id,
      userId: id,
      requestedAt: instant,
      deleteAt: instant,
      email: email.optional(),
    }),
    example: {
      deletionId: 'gdl_41',
      userId: 'usr_2711',
      requestedAt: '2026-02-27T08:00:00Z',
      deleteAt: '2026-03-29T08:00:00Z',
      email: 'jonas.eide@example.no',
    },
  }),

  'audit.gdpr.export_completed': topic({
    producer: 'audit',
    subscribers: ['audit', 'notifications'],
    description: "An export of a data subject's data is ready for download.",
    version: 1,
    person: ['userId', 'email'],
    payload: z.object({
      exportId: id,
      userId: id,
      completedAt: instant,
      fetchUntil: instant,
      bytes: count,
      email: email.optional(),
    }),
    example: {
      exportId: 'gex_88',
      userId: 'usr_3071',
      completedAt: '2026-02-26T20:41:19Z',
      fetchUntil: '2026-03-05T20:41:19Z',
      bytes: 482_113,
      email: 'kari.lunde@example.no',
    },
  }),

  'audit.gdpr.deletion_cancelled': topic({
    producer: 'audit',
    subscribers: ['audit', 'notifications', 'identity'],
    description: 'A scheduled deletion was cancelled within its grace period.',
    version: 1,
    person: ['userId', 'email'],
    payload: z.object({ deletionId: id, userId: id, cancelledAt: instant, email: email.optional() }),
    example: {
      deletionId: 'gdl_40',
      userId: 'usr_2688',
      cancelledAt: '2026-02-20T17:00:00Z',
      email: 'amir.haddad@example.no',
    },
  }),

  'audit.gdpr.deletion_completed': topic({
    producer: 'audit',
    subscribers: ['audit', 'identity', 'messaging'],
    description: "A data subject's data was deleted or anonymized.",
    version: 1,
    person: ['userId'],
    payload: z.object({
      deletionId: id,
      userId: id,
      completedAt: instant,
      erasedRecords: count,
      keptForAccounting: count,
    }),
    example: {
      deletionId: 'gdl_41',
      userId: 'usr_2711',
      completedAt: '2026-03-29T08:00:04Z',
      erasedRecords: 148,
      keptForAccounting: 6,
    },
  }),

  'audit.consent.given': topic({
    producer: 'audit',
    subscribers: ['notifications', 'intelligence'],
    description: 'A user consented to a use of their data.',
    version: 1,
    person: ['userId'],
    payload: z.object({ userId: id, purpose, wordingVersion: code(z.string().min(1)), givenAt: instant }),
    example: {
      userId: 'usr_3071',
      purpose: 'recommendations',
      wordingVersion: '2026-01',
      givenAt: '2026-01-19T17:29:00Z',
    },
  }),

  'audit.consent.withdrawn': topic({
    producer: 'audit',
    subscribers: ['notifications', 'intelligence'],
    description: 'A user withdrew a consent.',
    version: 1,
    person: ['userId'],
    payload: z.object({ userId: id, purpose, withdrawnAt: instant }),
    example: { userId: 'usr_3071', purpose: 'sms', withdrawnAt: '2026-02-26T20:16:00Z' },
  }),

  'audit.access.reviewed': topic({
    producer: 'audit',
    subscribers: ['identity', 'reporting'],
    description: 'The roles in a tenant were reviewed and confirmed.',
    version: 1,
    payload: z.object({
      reviewId: id,
      tenantId: id,
      reviewedBy: id,
      confirmed: count,
      toBeRevoked: list(id),
      reviewedOn: day,
    }),
    example: {
      reviewId: 'acr_2026_1',
      tenantId: 'tnt_solvik',
      reviewedBy: 'usr_101',
      confirmed: 31,
      toBeRevoked: ['usr_109'],
      reviewedOn: '2026-01-30',
    },
  }),

  'audit.retention.applied': topic({
    producer: 'audit',
    subscribers: ['reporting'],
    description: 'Records past their retention were deleted.',
    version: 1,
    payload: z.object({
      ruleId: id,
      record: z.enum(['message', 'booking', 'chat', 'access_log']),
      olderThan: day,
      deleted: count,
      appliedAt: instant,
    }),
    example: {
      ruleId: 'ret_access_log',
      record: 'access_log',
      olderThan: '2025-11-28',
      deleted: 10_442,
      appliedAt: '2026-02-28T02:00:09Z',
    },
  }),
};

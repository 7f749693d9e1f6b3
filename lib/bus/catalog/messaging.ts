import * as z from 'zod';
import { topic } from './topic.ts';
import { email, freeText, id, instant, personal } from './values.ts';

const author = z.enum(['citizen', 'case_handler']);

export const messaging = {
  'message.posted': topic({
    producer: 'messaging',
    subscribers: ['notifications', 'audit'],
    description: 'A new message stands in a thread between a citizen and a case handler.',
    version: 1,
    listed: true,
    person: ['authorId'],
    otherPeople: ['email'],
    payload: z.object({
      messageId: id,
      threadId: id,
      bookingId: id.optional(),
      author,
      authorId: id,
      text: freeText,
      postedAt: instant,
      email: email.optional(),
    }),
    example: {
      messageId: 'msg_120331',
      threadId: 'thr_8842',
      bookingId: 'bkg_48213',
      author: 'citizen',
      authorId: 'usr_3071',
      text: 'Kan vi få låst opp døra et kvarter før?',
      postedAt: '2026-03-10T19:22:05Z',
      email: 'ingrid.moen@example.no',
    },
  }),

  'message.withdrawn': topic({
    producer: 'messaging',
    subscribers: ['audit'],
    description: 'The author of a message retracted it.',
    version: 1,
    person: ['authorId'],
    payload: z.object({ messageId: id, threadId: id, authorId: id, withdrawnAt: instant }),
    example: {
      messageId: 'msg_120333',
      threadId: 'thr_8842',
      authorId: 'usr_3071',
      withdrawnAt: '2026-03-10T19:25:40Z',
    },
  }),

  'message.attachment.rejected': topic({
    producer: 'messaging',
    subscribers: ['notifications', 'support'],
    description: 'An attachment was refused because of its size, its type or the result of a scan.',
    version: 1,
    person: ['email'],
    payload: z.object({
      attachmentId: id,
      threadId: id,
      fileName: personal(z.string().min(1).max(255)),
      cause: z.enum(['too_large', 'kind_not_allowed', 'malware']),
      email: email.optional(),
    }),
    example: {
      attachmentId: 'att_5120',
      threadId: 'thr_8842',
      fileName: 'tegning-scene.exe',
      cause: 'kind_not_allowed',
      email: 'kari.lunde@example.no',
    },
  }),

  'thread.opened': topic({
    producer: 'messaging',
    subscribers: ['support', 'audit'],
    description: 'A thread between a citizen and the tenant was opened.',
    version: 1,
    payload: z.object({
      threadId: id,
      tenantId: id,
      bookingId: id.optional(),
      openedBy: author,
      openedAt: instant,
      subject: freeText,
    }),
    example: {
      threadId: 'thr_8842',
      tenantId: 'tnt_solvik',
      bookingId: 'bkg_48213',
      openedBy: 'citizen',
      openedAt: '2026-03-10T19:22:05Z',
      subject: 'Tidlig opplåsing 15. mars',
    },
  }),

  'thread.assigned': topic({
    producer: 'messaging',
    subscribers: ['notifications', 'audit'],
    description: 'A thread was assigned to a case handler.',
    version: 1,
    orderingKey: ({ threadId }) => threadId,
    orderedBy: 'threadId',
    person: ['caseHandlerId', 'email'],
    payload: z.object({ threadId: id, caseHandlerId: id, assignedAt: instant, email: email.optional() }),
    example: {
      threadId: 'thr_8842',
      caseHandlerId: 'usr_112',
      assignedAt: '2026-03-11T06:58:00Z',
      email: 'ingrid.moen@example.no',
    },
  }),

  'thread.closed': topic({
    producer: 'messaging',
    subscribers: ['reporting', 'audit'],
    description: 'A thread was closed, answered or without a reply.',
    version: 1,
    payload: z.object({
      threadId: id,
      closedBy: id,
      outcome: z.enum(['answered', 'no_reply']),
      closedAt: instant,
    }),
    example: {
      threadId: 'thr_8842',
      closedBy: 'usr_112',
      outcome: 'answered',
      closedAt: '2026-03-16T08:10:00Z',
    },
  }),
};

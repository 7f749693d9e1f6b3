import * as z from 'zod';
import { topic } from './topic.ts';
import { code, email, freeText, id, instant, list, personal } from './values.ts';

const visitor = {
  // Open lists: a visitor may have typed anything here.
  source: personal(z.string().min(1).max(80)),
  persona: personal(z.string().min(1).max(80)),
  organization: personal(z.string().min(1).max(200)),
  topic: personal(z.string().min(1).max(200)),
  name: personal(z.string().min(1).max(120)),
  // The endpoint has checked the address; a second check could only lose an inquiry.
  email: personal(z.string().min(1).max(254)),
  phone: personal(z.string().max(40)).optional(),
};

/** All that a mail needs. The texts go once it is sent. */
const kept = {
  inquiryId: id,
  /** When the visitor sent it. */
  receivedAt: instant,
  ...visitor,
  summary: freeText.optional(),
  message: freeText.optional(),
  contextSummary: freeText.optional(),
};

const keptExample = {
  inquiryId: 'inq_5521',
  receivedAt: '2026-01-05T08:15:00Z',
  source: 'kontakt-salg',
  persona: 'driftsleder',
  organization: 'Nordvåg kommune',
  topic: 'Demo av hallbooking',
  name: 'Sigrid Aasen',
  email: 'sigrid.aasen@example.no',
  message: 'Vi vil gjerne se hvordan sesongleie fungerer.',
};

export const inquiries = {
  'inquiry.submitted': topic({
    producer: 'inquiries',
    subscribers: ['notifications', 'audit', 'intelligence'],
    description: 'A visitor of the marketing site sent an inquiry and its mail was accepted.',
    version: 1,
    person: ['email'],
    payload: z.object({ inquiryId: id, ...visitor }),
    example: {
      inquiryId: 'inq_5521',
      source: 'kontakt-salg',
      persona: 'driftsleder',
      organization: 'Nordvåg kommune',
      topic: 'Demo av hallbooking',
      name: 'Sigrid Aasen',
      email: 'sigrid.aasen@example.no',
      phone: '+47 400 00 456',
    },
  }),

  'inquiry.delayed': topic({
    producer: 'inquiries',
    subscribers: ['inquiries'],
    description: 'The mail of an inquiry was not accepted within a minute. It is kept here until it is.',
    version: 1,
    person: ['email'],
    payload: z.object({
      ...kept,
      /** Digests by which a second try of the visitor is recognised: of the content, and of the `Idempotency-Key`. */
      keys: list(code(z.string().min(1).max(255))),
    }),
    example: { ...keptExample, keys: ['3c9909afec25354d551dae21590bb26e38d53f2173b8d3dc3eee4c047e7ab1c1'] },
  }),

  'inquiry.trapped': topic({
    producer: 'inquiries',
    subscribers: ['inquiries'],
    description:
      'An inquiry filled in the field that people do not see. It is kept and not mailed; a replay mails it.',
    version: 1,
    person: ['email'],
    payload: z.object(kept),
    example: keptExample,
  }),

  'inquiry.assigned': topic({
    producer: 'inquiries',
    subscribers: ['notifications', 'audit'],
    description: 'An inquiry was assigned to a person.',
    version: 1,
    person: ['assignedTo', 'email'],
    payload: z.object({ inquiryId: id, assignedTo: id, assignedAt: instant, email: email.optional() }),
    example: {
      inquiryId: 'inq_5521',
      assignedTo: 'usr_9',
      assignedAt: '2026-01-05T08:15:00Z',
      email: 'ingrid.moen@example.no',
    },
  }),

  'inquiry.answered': topic({
    producer: 'inquiries',
    subscribers: ['audit', 'reporting'],
    description: 'An inquiry got its first answer from a person.',
    version: 1,
    payload: z.object({
      inquiryId: id,
      answeredBy: id,
      answeredAt: instant,
      waitedSeconds: z.int().nonnegative(),
    }),
    example: {
      inquiryId: 'inq_5521',
      answeredBy: 'usr_9',
      answeredAt: '2026-01-05T09:02:00Z',
      waitedSeconds: 4020,
    },
  }),

  'inquiry.converted': topic({
    producer: 'inquiries',
    subscribers: ['tenants', 'subscriptions'],
    description: 'An inquiry led to a municipality becoming a tenant.',
    version: 1,
    payload: z.object({ inquiryId: id, tenantId: id, convertedAt: instant }),
    example: { inquiryId: 'inq_5521', tenantId: 'tnt_nordvag', convertedAt: '2026-01-08T12:00:00Z' },
  }),

  'inquiry.closed': topic({
    producer: 'inquiries',
    subscribers: ['reporting'],
    description: 'An inquiry needs no further answer.',
    version: 1,
    payload: z.object({
      inquiryId: id,
      outcome: z.enum(['converted', 'not_interested', 'no_reply', 'spam']),
      note: freeText.optional(),
      closedAt: instant,
    }),
    example: {
      inquiryId: 'inq_5498',
      outcome: 'no_reply',
      note: 'Ringt to ganger uten svar.',
      closedAt: '2026-02-02T10:00:00Z',
    },
  }),
};

import * as z from 'zod';
import { topic } from './topic.ts';
import { email, freeText, id, instant } from './values.ts';

const stars = z.int().min(1).max(5);

export const reviews = {
  'review.requested': topic({
    producer: 'reviews',
    subscribers: ['notifications'],
    description: 'A citizen was asked to review a venue after a booking.',
    version: 1,
    person: ['citizenId', 'email'],
    payload: z.object({
      bookingId: id,
      resourceId: id,
      citizenId: id,
      answerUntil: instant,
      email: email.optional(),
    }),
    example: {
      bookingId: 'bkg_48213',
      resourceId: 'res_solvikhallen',
      citizenId: 'usr_3071',
      answerUntil: '2026-03-29T21:59:59Z',
      email: 'kari.lunde@example.no',
    },
  }),

  'review.submitted': topic({
    producer: 'reviews',
    subscribers: ['resources', 'intelligence'],
    description: 'A citizen reviewed a venue; the review awaits moderation.',
    version: 1,
    payload: z.object({
      reviewId: id,
      bookingId: id,
      resourceId: id,
      stars,
      text: freeText.optional(),
      submittedAt: instant,
    }),
    example: {
      reviewId: 'rvw_1920',
      bookingId: 'bkg_48213',
      resourceId: 'res_solvikhallen',
      stars: 4,
      text: 'Fin hall, men dusjene var kalde.',
      submittedAt: '2026-03-17T19:40:00Z',
    },
  }),

  'review.published': topic({
    producer: 'reviews',
    subscribers: ['resources', 'notifications'],
    description: 'A review passed moderation and is shown on the marketplace.',
    version: 1,
    person: ['email'],
    payload: z.object({
      reviewId: id,
      resourceId: id,
      stars,
      publishedAt: instant,
      email: email.optional(),
    }),
    example: {
      reviewId: 'rvw_1920',
      resourceId: 'res_solvikhallen',
      stars: 4,
      publishedAt: '2026-03-18T08:00:00Z',
      email: 'torstein.vik@example.no',
    },
  }),

  'review.reported': topic({
    producer: 'reviews',
    subscribers: ['support', 'audit'],
    description: 'Someone reported a published review as unfair or offensive.',
    version: 1,
    payload: z.object({
      reviewId: id,
      reportedAt: instant,
      ground: z.enum(['offensive', 'untrue', 'personal_information', 'spam']),
      note: freeText.optional(),
    }),
    example: {
      reviewId: 'rvw_1877',
      reportedAt: '2026-03-02T10:30:00Z',
      ground: 'personal_information',
      note: 'Vaktmesteren er nevnt med fullt navn.',
    },
  }),

  'review.answered': topic({
    producer: 'reviews',
    subscribers: ['notifications', 'audit'],
    description: 'The tenant answered a review in public.',
    version: 1,
    person: ['email'],
    payload: z.object({
      reviewId: id,
      answeredBy: id,
      text: freeText,
      answeredAt: instant,
      email: email.optional(),
    }),
    example: {
      reviewId: 'rvw_1920',
      answeredBy: 'usr_118',
      text: 'Takk for tilbakemeldingen, varmtvannet er reparert.',
      answeredAt: '2026-03-19T09:00:00Z',
      email: 'kari.lunde@example.no',
    },
  }),
};

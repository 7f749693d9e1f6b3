import * as z from 'zod';
import { topic } from './topic.ts';
import { amountMinor, code, currency, day, id, instant, list, personal, title } from './values.ts';

/** How sure a model is, from 0 to 1. */
const confidence = z.number().min(0).max(1);

export const intelligence = {
  'intelligence.risk.flagged': topic({
    producer: 'intelligence',
    subscribers: ['identity', 'payments', 'audit'],
    description: 'A sign-in, a booking or a payment looks fraudulent.',
    version: 1,
    payload: z.object({
      flagId: id,
      about: z.enum(['sign_in', 'booking', 'payment']),
      reference: id,
      confidence,
      signals: list(code(z.string().min(1))).min(1),
      flaggedAt: instant,
    }),
    example: {
      flagId: 'flg_3120',
      about: 'sign_in',
      reference: 'usr_2950',
      confidence: 0.91,
      signals: ['impossible_travel', 'new_device'],
      flaggedAt: '2026-02-22T02:13:58Z',
    },
  }),

  'intelligence.demand.forecast': topic({
    producer: 'intelligence',
    subscribers: ['resources', 'seasons', 'reporting'],
    description: 'The demand for a venue was forecast for the coming weeks.',
    version: 1,
    payload: z.object({
      forecastId: id,
      resourceId: id,
      weeks: list(z.object({ monday: day, occupancy: z.number().min(0).max(1) })).min(1),
      confidence,
      forecastAt: instant,
    }),
    example: {
      forecastId: 'fct_2026_09_solvikhallen',
      resourceId: 'res_solvikhallen',
      weeks: [
        { monday: '2026-03-02', occupancy: 0.82 },
        { monday: '2026-03-09', occupancy: 0.79 },
      ],
      confidence: 0.74,
      forecastAt: '2026-02-27T06:04:31Z',
    },
  }),

  'intelligence.price.suggested': topic({
    producer: 'intelligence',
    subscribers: ['resources', 'tenants'],
    description: 'A new price was suggested for a venue; a person decides on it.',
    version: 1,
    payload: z.object({
      suggestionId: id,
      resourceId: id,
      hourMinor: amountMinor,
      suggestedHourMinor: amountMinor,
      currency,
      confidence,
      because: personal(z.string().min(1).max(2000)),
    }),
    example: {
      suggestionId: 'sgn_204',
      resourceId: 'res_gamle_tinghus',
      hourMinor: 60_000,
      suggestedHourMinor: 45_000,
      currency: 'NOK',
      confidence: 0.68,
      because: 'Mandag formiddag har stått ledig i elleve av tolv uker.',
    },
  }),

  'intelligence.content.drafted': topic({
    producer: 'intelligence',
    subscribers: ['resources', 'audit'],
    description: "The content agent drafted a text for a venue; it awaits a person's approval.",
    version: 1,
    payload: z.object({
      draftId: id,
      resourceId: id,
      language: z.enum(['nb', 'nn', 'se', 'en']),
      headline: title,
      model: code(z.string().min(1)),
      draftedAt: instant,
    }),
    example: {
      draftId: 'drf_990',
      resourceId: 'res_solvikhallen',
      language: 'nn',
      headline: 'Solvikhallen – plass til heile laget',
      model: 'claude-haiku-5-5',
      draftedAt: '2026-02-27T06:02:10Z',
    },
  }),

  'intelligence.no_show.predicted': topic({
    producer: 'intelligence',
    subscribers: ['bookings', 'notifications'],
    description: 'A booking is likely to stay unused; a reminder may prevent it.',
    version: 1,
    payload: z.object({ bookingId: id, resourceId: id, startsAt: instant, confidence }),
    example: {
      bookingId: 'bkg_48355',
      resourceId: 'res_furulia_svommehall',
      startsAt: '2026-03-01T10:00:00Z',
      confidence: 0.81,
    },
  }),
};

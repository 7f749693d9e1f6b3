import * as z from 'zod';
import { topic } from './topic.ts';
import { code, count, day, freeText, id, instant, list, title } from './values.ts';

const timeOfDay = code(
  z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'expected hours and minutes, for example 08:30'),
);

export const calendar = {
  'calendar.slot.blocked': topic({
    producer: 'calendar',
    subscribers: ['bookings', 'seasons'],
    description: "A time in a venue's calendar can no longer be booked.",
    version: 1,
    orderingKey: ({ resourceId }) => resourceId,
    orderedBy: 'resourceId',
    payload: z.object({
      slotId: id,
      resourceId: id,
      startsAt: instant,
      endsAt: instant,
      cause: z.enum(['booking', 'season', 'maintenance', 'closed', 'manual']),
    }),
    example: {
      slotId: 'slt_660193',
      resourceId: 'res_solvikhallen',
      startsAt: '2026-03-15T16:00:00Z',
      endsAt: '2026-03-15T19:00:00Z',
      cause: 'booking',
    },
  }),

  'calendar.slot.released': topic({
    producer: 'calendar',
    subscribers: ['bookings', 'intelligence'],
    description: "A blocked time in a venue's calendar became free.",
    version: 1,
    orderingKey: ({ resourceId }) => resourceId,
    orderedBy: 'resourceId',
    payload: z.object({ slotId: id, resourceId: id, startsAt: instant, endsAt: instant }),
    example: {
      slotId: 'slt_660021',
      resourceId: 'res_furulia_svommehall',
      startsAt: '2026-02-28T11:00:00Z',
      endsAt: '2026-02-28T14:00:00Z',
    },
  }),

  'calendar.conflict.detected': topic({
    producer: 'calendar',
    subscribers: ['bookings', 'support', 'notifications'],
    description: 'Two bookings, or a booking and an external calendar, claim the same time in a venue.',
    version: 1,
    payload: z.object({
      conflictId: id,
      resourceId: id,
      startsAt: instant,
      endsAt: instant,
      claims: list(z.object({ source: z.enum(['booking', 'season', 'feed']), reference: id })).min(2),
    }),
    example: {
      conflictId: 'cnf_15',
      resourceId: 'res_strandveien_kunstgress',
      startsAt: '2026-04-11T09:00:00Z',
      endsAt: '2026-04-11T11:00:00Z',
      claims: [
        { source: 'booking', reference: 'bkg_48777' },
        { source: 'feed', reference: 'fed_nordvag_skole' },
      ],
    },
  }),

  'calendar.opening_hours.changed': topic({
    producer: 'calendar',
    subscribers: ['bookings', 'resources', 'intelligence'],
    description: 'The opening hours of a venue were changed.',
    version: 1,
    orderingKey: ({ resourceId }) => resourceId,
    orderedBy: 'resourceId',
    payload: z.object({
      resourceId: id,
      validFrom: day,
      weekdays: z
        .array(z.object({ weekday: z.int().min(1).max(7), opensAt: timeOfDay, closesAt: timeOfDay }))
        .max(7),
    }),
    example: {
      resourceId: 'res_furulia_svommehall',
      validFrom: '2026-08-17',
      weekdays: [
        { weekday: 1, opensAt: '06:30', closesAt: '21:00' },
        { weekday: 6, opensAt: '10:00', closesAt: '17:00' },
      ],
    },
  }),

  'calendar.holidays.imported': topic({
    producer: 'calendar',
    subscribers: ['seasons', 'bookings'],
    description: 'The public and school holidays of a year were imported for a tenant.',
    version: 1,
    payload: z.object({
      tenantId: id,
      year: z.int().min(2000).max(2100),
      holidays: list(z.object({ day, name: title })).min(1),
    }),
    example: {
      tenantId: 'tnt_solvik',
      year: 2026,
      holidays: [
        { day: '2026-04-02', name: 'Skjærtorsdag' },
        { day: '2026-05-17', name: 'Grunnlovsdagen' },
      ],
    },
  }),

  'calendar.feed.synced': topic({
    producer: 'calendar',
    subscribers: ['integrations'],
    description: 'An external calendar was read and its entries were imported.',
    version: 1,
    payload: z.object({ feedId: id, resourceId: id, added: count, removed: count, syncedAt: instant }),
    example: {
      feedId: 'fed_nordvag_skole',
      resourceId: 'res_strandveien_kunstgress',
      added: 4,
      removed: 1,
      syncedAt: '2026-02-24T03:00:12Z',
    },
  }),

  'calendar.closure.announced': topic({
    producer: 'calendar',
    subscribers: ['bookings', 'notifications'],
    description: 'A venue closes at short notice, for example for an election or a burst pipe.',
    version: 1,
    payload: z.object({ closureId: id, resourceId: id, startsAt: instant, endsAt: instant, note: freeText }),
    example: {
      closureId: 'cls_9',
      resourceId: 'res_solvikhallen',
      startsAt: '2026-03-14T06:00:00Z',
      endsAt: '2026-03-14T22:00:00Z',
      note: 'Vannlekkasje i garderobene.',
    },
  }),
};

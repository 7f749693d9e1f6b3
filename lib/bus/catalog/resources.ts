import * as z from 'zod';
import { topic } from './topic.ts';
import { amountMinor, code, count, currency, day, freeText, id, instant, list, title } from './values.ts';

const kind = z.enum(['sports_hall', 'swimming_pool', 'pitch', 'culture_house', 'meeting_room', 'event']);

export const resources = {
  'resource.published': topic({
    producer: 'resources',
    subscribers: ['notifications', 'intelligence', 'audit'],
    description: 'A venue or an event was published to the marketplace.',
    version: 1,
    listed: true,
    payload: z.object({
      resourceId: id,
      tenantId: id,
      kind,
      name: title,
      url: code(z.url()),
      publishedBy: id,
      publishedAt: instant,
    }),
    example: {
      resourceId: 'res_solvikhallen',
      tenantId: 'tnt_solvik',
      kind: 'sports_hall',
      name: 'Solvikhallen',
      url: 'https://booking.example.no/solvik/solvikhallen',
      publishedBy: 'usr_118',
      publishedAt: '2026-01-12T08:30:00Z',
    },
  }),

  'resource.created': topic({
    producer: 'resources',
    subscribers: ['calendar', 'audit'],
    description: 'A venue or an event was registered and is not published yet.',
    version: 1,
    payload: z.object({ resourceId: id, tenantId: id, kind, name: title, capacity: count, createdBy: id }),
    example: {
      resourceId: 'res_gamle_tinghus',
      tenantId: 'tnt_nordvag',
      kind: 'culture_house',
      name: 'Gamle tinghus',
      capacity: 120,
      createdBy: 'usr_301',
    },
  }),

  'resource.updated': topic({
    producer: 'resources',
    subscribers: ['intelligence', 'audit'],
    description: 'The marketplace listing of a venue or an event was changed.',
    version: 1,
    orderingKey: ({ resourceId }) => resourceId,
    orderedBy: 'resourceId',
    payload: z.object({
      resourceId: id,
      changed: list(z.enum(['name', 'description', 'images', 'equipment', 'accessibility', 'rules'])).min(1),
      updatedBy: id,
    }),
    example: {
      resourceId: 'res_gamle_tinghus',
      changed: ['images', 'accessibility'],
      updatedBy: 'usr_301',
    },
  }),

  'resource.capacity.changed': topic({
    producer: 'resources',
    subscribers: ['bookings', 'calendar', 'seasons'],
    description: 'The capacity of a venue was changed, in people or in parallel bookings.',
    version: 1,
    payload: z.object({ resourceId: id, previousCapacity: count, capacity: count, validFrom: day }),
    example: {
      resourceId: 'res_furulia_svommehall',
      previousCapacity: 80,
      capacity: 60,
      validFrom: '2026-04-01',
    },
  }),

  'resource.price_list.changed': topic({
    producer: 'resources',
    subscribers: ['bookings', 'intelligence', 'audit'],
    description: 'A venue got a new price list.',
    version: 1,
    orderingKey: ({ resourceId }) => resourceId,
    orderedBy: 'resourceId',
    payload: z.object({
      resourceId: id,
      priceListId: id,
      currency,
      validFrom: day,
      rates: list(
        z.object({
          group: z.enum(['children_and_youth', 'association', 'private', 'commercial']),
          hourMinor: amountMinor,
        }),
      ).min(1),
    }),
    example: {
      resourceId: 'res_solvikhallen',
      priceListId: 'prl_2026',
      currency: 'NOK',
      validFrom: '2026-08-01',
      rates: [
        { group: 'children_and_youth', hourMinor: 0 },
        { group: 'association', hourMinor: 20_000 },
        { group: 'commercial', hourMinor: 95_000 },
      ],
    },
  }),

  'resource.unpublished': topic({
    producer: 'resources',
    subscribers: ['calendar', 'intelligence', 'audit'],
    description: 'A venue or an event was removed from the marketplace.',
    version: 1,
    payload: z.object({
      resourceId: id,
      unpublishedBy: id,
      unpublishedAt: instant,
      reason: freeText.optional(),
    }),
    example: {
      resourceId: 'res_gamle_tinghus',
      unpublishedBy: 'usr_301',
      unpublishedAt: '2026-06-01T07:00:00Z',
      reason: 'Stengt for rehabilitering ut året.',
    },
  }),

  'resource.maintenance.scheduled': topic({
    producer: 'resources',
    subscribers: ['calendar', 'bookings', 'notifications'],
    description: 'A venue will be closed for maintenance.',
    version: 1,
    orderingKey: ({ resourceId }) => resourceId,
    orderedBy: 'resourceId',
    payload: z.object({
      maintenanceId: id,
      resourceId: id,
      startsAt: instant,
      endsAt: instant,
      affectedBookingIds: list(id),
      note: freeText.optional(),
    }),
    example: {
      maintenanceId: 'mnt_58',
      resourceId: 'res_furulia_svommehall',
      startsAt: '2026-06-22T04:00:00Z',
      endsAt: '2026-07-10T20:00:00Z',
      affectedBookingIds: ['bkg_49012'],
      note: 'Bytte av filter og rengjøring av basseng.',
    },
  }),

  'resource.maintenance.completed': topic({
    producer: 'resources',
    subscribers: ['calendar', 'bookings'],
    description: 'Maintenance is done and the venue can be used again.',
    version: 1,
    payload: z.object({ maintenanceId: id, resourceId: id, completedAt: instant }),
    example: {
      maintenanceId: 'mnt_58',
      resourceId: 'res_furulia_svommehall',
      completedAt: '2026-07-08T12:40:00Z',
    },
  }),

  'resource.damage.reported': topic({
    producer: 'resources',
    subscribers: ['support', 'payments', 'notifications'],
    description: 'Someone reported damage to a venue or its equipment.',
    version: 1,
    payload: z.object({
      damageId: id,
      resourceId: id,
      bookingId: id.optional(),
      reportedAt: instant,
      severity: z.enum(['cosmetic', 'needs_repair', 'unsafe']),
      note: freeText,
    }),
    example: {
      damageId: 'dmg_33',
      resourceId: 'res_gamle_tinghus',
      bookingId: 'bkg_48330',
      reportedAt: '2026-05-10T09:05:00Z',
      severity: 'needs_repair',
      note: 'Et vindu i storsalen er sprukket.',
    },
  }),

  'resource.access_code.issued': topic({
    producer: 'resources',
    subscribers: ['integrations', 'audit'],
    description: 'A door code was issued for a booking; the code itself is not in the event.',
    version: 1,
    payload: z.object({
      accessCodeId: id,
      resourceId: id,
      bookingId: id,
      validFrom: instant,
      validUntil: instant,
    }),
    example: {
      accessCodeId: 'acd_81420',
      resourceId: 'res_solvikhallen',
      bookingId: 'bkg_48213',
      validFrom: '2026-03-15T15:45:00Z',
      validUntil: '2026-03-15T19:15:00Z',
    },
  }),
};

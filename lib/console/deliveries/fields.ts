import * as z from 'zod';

import { computed, field, instant } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';

/** Fields that a list and the delivery's own page both show. */
export const deliveryFields = {
  deliveryId: field(
    z.string().meta({ description: 'The id of a delivery: `<eventId>.<subscriber>`.' }),
    `event_id || '.' || lanes.subscriber`,
  ),
  eventId: field(z.uuid(), 'event_id'),
  topic: field(shape.topic, 'lanes.topic'),
  subscriber: field(z.string(), 'lanes.subscriber'),
  subject: computed(
    z.string().nullable().meta({ description: 'The subject of the event, for example `booking bkg_48213`.' }),
  ),
  createdAt: instant('created_at'),
  failures: field(
    shape.count.meta({ description: 'Failed attempts since the first or the last replay.' }),
    'attempts',
  ),
  replays: field(shape.count, 'replays'),
};

import * as z from 'zod';

import { deliveryFields } from '../deliveries/fields.ts';
import { computed, field, instant, shapesOf } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';

export const itemFields = {
  eventId: field(z.uuid(), 'events.id'),
  topic: field(shape.topic, 'events.topic'),
  subject: deliveryFields.subject,
  state: field(shape.state, 'state'),
  createdAt: instant('created_at'),
  delivery: field(
    z
      .object({ deliveryId: z.string(), state: shape.state })
      .nullable()
      .meta({ description: 'The delivery to the subscriber in the query, once the event has its place.' }),
    "case when own is not null then json_build_object('deliveryId', events.id || '.' || $5::text, 'state', own) end",
  ),
  foundBy: computed(
    z.array(z.string()).meta({
      description: 'Where the searched text is in the event, for example `payload /paymentIntentId`.',
    }),
  ),
};
const item = z.object(shapesOf(itemFields)).meta({ id: 'EventItem' });
export type EventItem = z.output<typeof item>;

const reach = z.object({
  since: shape.instant.nullable().meta({
    description:
      'Older events are found only by their own ids, because the index does not have them yet; null: all are in it.',
  }),
  notSearched: shape.count.meta({
    description: 'About how many new events are neither in the index nor were searched one by one.',
  }),
  includesPayloads: z.boolean().meta({
    description: 'Whether payloads were searched: only for a text that looks like an id.',
  }),
});
/** How far a search reaches. */
export type Reach = z.output<typeof reach>;

export const eventList = z
  .object({
    generatedAt: shape.instant,
    filters: z.object({
      q: z.string().nullable(),
      topic: shape.topic.nullable(),
      state: shape.state.nullable(),
      subscriber: z.string().nullable(),
      since: z.string().nullable(),
      limit: shape.count,
    }),
    items: z.array(item).meta({
      description: 'Newest first. What a search finds by an event’s own id comes before the others.',
    }),
    nextCursor: z
      .string()
      .nullable()
      .meta({ description: 'The cursor of older events; null on the last page.' }),
    lookedBackTo: shape.instant.nullable().meta({
      description:
        'Set where few events match and the page ends before it is full: it has what matches back to this time.',
    }),
    search: reach.nullable().meta({ description: 'How far a search reaches; null without one.' }),
  })
  .meta({ id: 'EventList', description: 'A page of events.' });

export type EventList = z.output<typeof eventList>;

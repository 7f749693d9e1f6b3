import * as z from 'zod';

import { deliveryFields } from '../deliveries/attempts.ts';
import { computed, cursorOf, field, instant, shapesOf } from '../kit/fields.ts';
import { byLink, bySince, byState, bySubscriber, byTopic, shapesIn } from '../kit/filters.ts';
import { isInstant } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';

const LONGEST_SEARCH = 255;

/**
 * The place of an event in a list. That of all events, and those of failures, are in the order of their ids; those of topics
 * and subscribers in the order of creation, in which events are delivered; what a search finds in the order of `seq`.
 */
export const cursorShape = z.discriminatedUnion('in', [
  z.object({ in: z.literal('ids'), id: z.uuid() }),
  z.object({ in: z.literal('order'), at: z.string().refine(isInstant), seq: z.string().regex(/^\d{1,18}$/) }),
  z.object({ in: z.literal('seqs'), seq: z.int().nonnegative() }),
]);
export type Cursor = z.output<typeof cursorShape>;

export const eventFilters = {
  q: byLink(
    z
      .string()
      .trim()
      .max(LONGEST_SEARCH, `expected at most ${LONGEST_SEARCH} characters`)
      .optional()
      .describe(
        'An event id or at least its first 8 digits, a delivery id, a correlation or causation id, an ordering key, a deduplication key, a provider’s webhook event id, or any id in a payload that is not personal data.',
      ),
    { value: '<id or key>', help: 'an id or a key in it', isArgument: true },
  ),
  topic: byTopic,
  subscriber: bySubscriber,
  state: byState(
    shape.state.describe('The state of the event; with `subscriber`, of its delivery to that subscriber.'),
    'only pending, failing, dead-lettered or delivered ones',
  ),
  since: bySince('Emitted'),
};

/** The query of the list of events. */
export const eventsQuery = z.object({
  ...shapesIn(eventFilters),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});

export type EventsQuery = z.output<typeof eventsQuery>;

export const itemFields = {
  eventId: field(z.uuid(), 'events.id'),
  topic: field(shape.topic, 'events.topic'),
  subject: deliveryFields.subject,
  state: field(
    shape.state.describe('The worst of its deliveries’; with `subscriber`, of its delivery to that.'),
    'state',
  ),
  createdAt: instant('created_at'),
  foundBy: computed(
    z
      .array(z.string())
      .describe('Where the searched text is in the event, for example `payload /paymentIntentId`.'),
  ),
};
const item = z.object(shapesOf(itemFields)).meta({ id: 'EventItem' });
export type EventItem = z.output<typeof item>;

export const eventList = z
  .object({
    generatedAt: shape.instant,
    filters: z.object(shapesIn(eventFilters)),
    items: z
      .array(item)
      .describe('Newest first. What a search finds by an event’s own id comes before the others.'),
    nextCursor: z.string().nullable().describe('The cursor of older events; null on the last page.'),
    lookedBackTo: shape.instant
      .nullable()
      .describe(
        'Set where few events match and the page ends before it is full: it has what matches back to this time.',
      ),
    isComplete: z
      .boolean()
      .describe(
        'False where the index lacks some events that a search looked for: they are found by their own id, or in the list of their topic.',
      ),
  })
  .meta({ id: 'EventList', description: 'A page of events.' });

export type EventList = z.output<typeof eventList>;

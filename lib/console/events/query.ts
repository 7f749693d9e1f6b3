import * as z from 'zod';

import { ago, isInstant, topicText } from '../kit/replay-request.ts';
import { cursorOf } from '../kit/cursor.ts';
import * as shape from '../kit/shapes.ts';

const LONGEST_SEARCH = 255;

/**
 * The place of an event in a list. That of all events, and those of failures, are in the order of their ids; those of topics
 * and subscribers in the order of creation, in which events are delivered; what a search finds in the order of `seq`.
 */
const cursorShape = z.discriminatedUnion('in', [
  z.object({ in: z.literal('ids'), id: z.uuid() }),
  z.object({ in: z.literal('order'), at: z.string().refine(isInstant), seq: z.string().regex(/^\d{1,18}$/) }),
  z.object({ in: z.literal('seqs'), seq: z.int().nonnegative() }),
]);
export type Cursor = z.output<typeof cursorShape>;

/** The query of the list of events. */
export const eventsQuery = z.object({
  q: z.string().trim().max(LONGEST_SEARCH, `expected at most ${LONGEST_SEARCH} characters`).optional().meta({
    description:
      'An event id or at least its first 8 digits, a delivery id, a correlation or causation id, an ordering key, a deduplication key, a provider’s webhook event id, or any id in a payload that is not personal data.',
  }),
  topic: topicText.optional(),
  state: shape.state
    .optional()
    .meta({ description: 'The state of the event; with `subscriber`, of its delivery to that subscriber.' }),
  subscriber: z.string().max(100).optional().meta({ description: 'Only events for this subscriber.' }),
  since: ago.optional().meta({ description: 'Only events emitted within this time: `24h`, `90m`, `7d`.' }),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});

export type EventsQuery = z.output<typeof eventsQuery>;

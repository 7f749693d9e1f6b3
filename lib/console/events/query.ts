import * as z from 'zod';

import { cursorOf } from '../kit/cursor.ts';
import { byLink, bySince, bySubscriber, byTopic, shapesIn } from '../kit/filters.ts';
import { isInstant } from '../kit/replay-request.ts';
import { select } from '../kit/select.ts';
import * as shape from '../kit/shapes.ts';
import { stateWord } from '../kit/states.ts';
import { capitalize } from '../kit/words.ts';

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

const STATES = shape.state.options.map((state) => [state, capitalize(stateWord(state))] as const);

export const eventFilters = {
  q: byLink(
    z.string().trim().max(LONGEST_SEARCH, `expected at most ${LONGEST_SEARCH} characters`).optional().meta({
      description:
        'An event id or at least its first 8 digits, a delivery id, a correlation or causation id, an ordering key, a deduplication key, a provider’s webhook event id, or any id in a payload that is not personal data.',
    }),
    { value: '<id or key>', help: 'an id or a key in it', isArgument: true },
  ),
  topic: byTopic,
  subscriber: bySubscriber,
  state: {
    shape: shape.state.optional().meta({
      description: 'The state of the event; with `subscriber`, of its delivery to that subscriber.',
    }),
    option: { value: '<state>', help: 'only pending, failing, dead_lettered or delivered ones' },
    field: (name: string, value: string | null) =>
      select('State', name, value, [['', 'Any state'], ...STATES]),
  },
  since: bySince('Emitted'),
};

/** The query of the list of events. */
export const eventsQuery = z.object({
  ...shapesIn(eventFilters),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});

export type EventsQuery = z.output<typeof eventsQuery>;

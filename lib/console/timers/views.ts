import { answered } from '../../platform/http/operation.ts';
import { requireKnownTopic } from '../kit/known-names.ts';
import { timersPath } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { timersDoc } from './doc.ts';
import { readTimers, timerFilters, timerList, timersQuery } from './read.ts';

const listTimers = view({
  id: 'listTimers',
  path: timersPath(),
  summary: 'List timers: events that happen later, by time',
  query: timersQuery,
  answer: timerList,
  links: {
    cancel: {
      operationId: 'cancelTimer',
      description: 'Cancel the next one.',
      parameters: { eventId: '$response.body#/items/0/eventId' },
      requestBody: { reason: 'The booking was made by mistake.' },
    },
  },
  problems: ['validation_failed'],
  examples: {
    'of-a-topic': {
      summary: 'Those of one topic',
      parameters: { topic: 'booking.reminder.due', limit: 10 },
      answer: answered(),
    },
  },
  handle: async ({ query, bus }) => {
    const db = await bus.database();
    const found = await readTimers(db, query);
    // A topic of another release may have timers before it has events.
    if (found.items.length === 0) await requireKnownTopic(db, query.topic);
    return found;
  },
  says: timersDoc,
  command: {
    name: 'timers',
    summary: 'show what will happen: events that are set for later',
    filters: timerFilters,
    list: 'items',
    examples: [
      ['timers', 'what happens next'],
      ['timers --topic booking.reminder.due --key bkg_48213', 'the reminder of one booking'],
    ],
  },
});

export const timerViews = [listTimers];

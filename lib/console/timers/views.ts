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
      answer: answered({
        generatedAt: '2026-03-09T09:31:00.000Z',
        filters: { topic: 'booking.reminder.due', timerKey: null },
        items: [
          {
            eventId: '019cd0a3-7c00-7c2e-9d55-7b1f6a0c3d21',
            topic: 'booking.reminder.due',
            timerKey: 'bkg_48213',
            dueAt: '2026-03-13T16:00:00.000Z',
            setAt: '2026-02-20T09:12:41.000Z',
            refusedAt: null,
            producer: 'bookings',
            subject: 'booking bkg_48213',
          },
        ],
        nextCursor: null,
      }),
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

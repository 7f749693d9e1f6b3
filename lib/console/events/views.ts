import { answered } from '../../platform/http/operation.ts';
import { knownIn, MISSPELT_TOPIC } from '../kit/known-names.ts';
import { eventPath, HOME } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { eventList } from './fields.ts';
import type { EventList } from './fields.ts';
import { eventsDoc, namedItems } from './doc.ts';
import { eventFilters, eventsQuery } from './query.ts';
import { readEvents } from './read.ts';

export const listEvents = view({
  id: 'listEvents',
  path: `${HOME}/events`,
  summary: 'List or search events, newest first',
  description:
    'A search (`q`) finds an event by its id or the beginning of it, a delivery id, a correlation or causation id, an ordering key, a deduplication key, a provider’s webhook event id, or any id in its payload that is not personal data. Ids are compared whole, with their case.',
  query: eventsQuery,
  answer: eventList,
  csv: 'Events',
  problems: ['validation_failed'],
  examples: {
    'by-an-id-in-the-payload': {
      summary: 'The events of one payment intent',
      parameters: { q: 'pi_3QxSolvik48213', limit: 10 },
      answer: answered(),
    },
    'of-a-topic': {
      summary: 'The events of one topic that wait for one subscriber',
      parameters: { topic: 'payment.captured', subscriber: 'accounting', state: 'pending' },
      answer: answered(),
    },
    'an-unknown-topic': MISSPELT_TOPIC,
  },
  handle: async ({ query, bus }) => {
    const db = await knownIn(bus, query);
    return await readEvents(db, query);
  },
  says: eventsDoc,
  redirectTo: (found, { url }) => onlyEvent(found, url),
  command: {
    name: 'events',
    summary: 'list events, or find them by any id or key in them',
    notes: [
      'Finds an event by its id or the first 8 digits of it, a delivery id, a correlation or causation id, an ordering key, a deduplication key, a provider’s webhook event id, or any id in its payload.',
      'The state is that of the event, the worst of its deliveries; with --subscriber, that of its delivery to the subscriber.',
    ],
    filters: eventFilters,
    list: 'items',
    examples: [
      ['events', 'the newest events'],
      ['events pi_3QxSolvik48213', 'all events of one payment intent'],
      [
        'events --topic payment.captured --subscriber accounting --state pending',
        'the payments that accounting has not received',
      ],
    ],
  },
});

/** The page of the one event that has the searched id, or whose delivery has it, for a search without any filter. */
function onlyEvent({ items }: EventList, { searchParams }: URL): string | null {
  if (searchParams.size !== 1 || !searchParams.has('q')) return null;
  const named = namedItems(items);
  return named.length === 1 ? eventPath(named[0]!.eventId) : null;
}

export const eventsViews = [listEvents];

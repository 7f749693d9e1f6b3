import { topics } from '../../bus/catalog/catalog.ts';
import { answered, invalid } from '../../platform/http/operation.ts';
import { requireKnownSubscriber, requireKnownTopic } from '../kit/known-names.ts';
import { eventPath, HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { eventList } from './fields.ts';
import type { EventList } from './fields.ts';
import { namedItems } from './lists.ts';
import { eventsPage } from './page.ts';
import { eventsQuery } from './query.ts';
import { readEvents } from './read.ts';

const SUBSCRIBERS_BY_TOPIC = topics().map(([topic, { subscribers }]) => ({ topic, subscribers }));

export const listEvents = operatorRoute({
  id: 'listEvents',
  path: `${HOME}/events`,
  scope: 'event-bus:read',
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
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        filters: {
          q: 'pi_3QxSolvik48213',
          topic: null,
          state: null,
          subscriber: null,
          since: null,
          limit: 10,
        },
        items: [
          {
            eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
            topic: 'payment.captured',
            subject: 'booking bkg_48213',
            state: 'failing',
            createdAt: '2026-02-21T09:30:00.000Z',
            delivery: null,
            foundBy: ['payload /paymentIntentId'],
          },
        ],
        nextCursor: null,
        lookedBackTo: null,
        search: { since: null, notSearched: 0, includesPayloads: true },
      }),
    },
    'of-a-topic': {
      summary: 'The events of one topic that wait for one subscriber',
      parameters: { topic: 'payment.captured', subscriber: 'accounting', state: 'pending' },
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        filters: {
          q: null,
          topic: 'payment.captured',
          state: 'pending',
          subscriber: 'accounting',
          since: null,
          limit: 50,
        },
        items: [],
        nextCursor: null,
        lookedBackTo: null,
        search: null,
      }),
    },
    'an-unknown-topic': {
      summary: 'A topic that does not exist',
      parameters: { topic: 'payment.capture' },
      answer: invalid(
        'topic',
        'invalid_type',
        'expected a topic of the catalog; did you mean payment.captured?',
      ),
    },
  },
  handle: async ({ query, bus }) => {
    const db = await bus.database();
    await requireKnownTopic(db, query.topic);
    await requireKnownSubscriber(db, query.subscriber);
    return await readEvents(db, query);
  },
  page: (view, context) => eventsPage(view, context, SUBSCRIBERS_BY_TOPIC),
  redirectTo: (view, { url }) => onlyEvent(view, url),
});

/** The page of the one event that has the searched id, or whose delivery has it, for a search without any filter. */
function onlyEvent({ items }: EventList, { searchParams }: URL): string | null {
  if (searchParams.size !== 1 || !searchParams.has('q')) return null;
  const named = namedItems(items);
  return named.length === 1 ? eventPath(named[0]!.eventId) : null;
}

export const eventsRoutes = [listEvents];

import { knownIn } from '../kit/known-names.ts';
import { eventPath, HOME, eventsPath } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { html } from '../../platform/markup.ts';
import { leads } from '../kit/doc.ts';
import type { Doc, Empty } from '../kit/doc.ts';
import { below, inConsole, link, mono, say, statePhrase, when, whenAndAgo } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { shortId } from '../kit/words.ts';
import { eventFilters, eventList, eventsQuery, itemFields } from './fields.ts';
import type { EventList, EventItem } from './fields.ts';
import { readEvents } from './read.ts';

export const listEvents = view({
  id: 'listEvents',
  path: `${HOME}/events`,
  summary: 'List or search events, newest first',
  description:
    'A search (`q`) finds an event by its id or the beginning of it, a delivery id, a correlation or causation id, an ordering key, a deduplication key, a provider’s webhook event id, or any id in its payload that is not personal data. Ids are compared whole, with their case.',
  query: eventsQuery,
  answer: eventList,
  csv: { words: 'Events', columns: Object.keys(itemFields) },
  problems: ['validation_failed'],
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

/** Says which events there are, or what a search found. */
export function eventsDoc(list: EventList): Doc {
  const { items, filters, generatedAt: at, nextCursor, lookedBackTo } = list;
  const { q } = filters;
  const [first] = items;
  return {
    title: 'Events',
    lead:
      q === undefined
        ? 'Every event with the worst state of its deliveries, newest first.'
        : say`Events found by ${mono(q)}, newest first.${items.length > 0 && reachNote(list)}`,
    section: 'events',
    at,
    filters: { path: eventsPath(), by: eventFilters, values: filters },
    blocks: [
      {
        id: 'events',
        ...(items.length > 0 && { title: q === undefined ? 'Newest first' : 'Found' }),
        hint: lookedBackTo !== null && say`Looked back to ${when(lookedBackTo, at)}: few events match.`,
        list: itemList(list),
        empty: nothing(list),
      },
    ],
    nextCursor,
    next: [first && ['Details', `why ${first.eventId}`]],
  };
}

function nothing(list: EventList): Empty {
  const { lookedBackTo, nextCursor, generatedAt, filters } = list;
  const { q, topic, state, subscriber, since } = filters;
  if (lookedBackTo !== null && nextCursor !== null)
    return {
      title: 'No event so far',
      text: say`Looked back to ${when(lookedBackTo, generatedAt)}; older ones are not looked at yet.`,
    };
  if (q !== undefined)
    return {
      title: `No event found by '${q}'`,
      text: say`Ids are compared whole, with their case. An event id may be shortened to its first 8 digits. In payloads only ids are looked for, not words, dates or personal data.${reachNote(list)}`,
      act: leads(eventsPath(), 'See the newest events', ''),
    };
  const isFiltered = (topic ?? state ?? subscriber ?? since) !== undefined;
  return {
    title: isFiltered ? 'No event matches these filters' : 'No events yet',
    text: 'An event is listed when its transaction is committed, and kept for 30 days after its last delivery.',
    act: isFiltered && leads(eventsPath(), 'Clear filters', ''),
  };
}

/** The events of a page, or what a search found. */
export function itemList({ items, filters, generatedAt: now }: EventList): List<EventItem> {
  const { q, subscriber } = filters;
  return {
    name: 'Events',
    columns: [
      {
        label: 'Event',
        look: 'about',
        cell: ({ eventId, topic, subject }) =>
          say`${link(eventPath(eventId), topic, 't')}${below(subject, ', ')}`,
      },
      {
        label: subscriber === undefined ? 'State' : `State for ${subscriber}`,
        cell: ({ state }) => statePhrase(state),
      },
      q !== undefined && {
        label: 'Found by',
        cell: ({ foundBy }) => ({
          html: foundBy.map((by) => html`<span class="s wrap">${by}</span>`),
          text: foundBy.join(', '),
        }),
      },
      { label: 'Emitted', look: 'nowrap', cell: ({ createdAt }) => whenAndAgo(createdAt, now) },
      {
        label: 'Event id',
        look: 'mono nowrap',
        cell: ({ eventId }) => inConsole(shortId(eventId)),
      },
    ],
    rows: items,
    idOf: ({ eventId }) => eventId,
  };
}

/** The events whose own id, or that of a delivery, was searched. */
export function namedItems(items: readonly EventItem[]): readonly EventItem[] {
  return items.filter(({ foundBy }) => foundBy.some((by) => by === 'event id' || by === 'delivery id'));
}

/** Says what a search leaves out. */
function reachNote({ isComplete }: EventList): string {
  if (isComplete) return '';
  return ' The index does not have all events yet: others are found by their own id, or in the list of their topic.';
}

import { html } from '../../platform/markup.ts';
import { leads } from '../kit/doc.ts';
import type { Doc, Empty } from '../kit/doc.ts';
import { below, inConsole, link, mono, say, statePhrase, toMinute, whenAndAgo } from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import { deadLetterPath, eventPath, eventsPath, HOME, withParameters } from '../kit/links.ts';
import { stateLabel } from '../kit/states.ts';
import { quantity, shortId } from '../kit/words.ts';
import type { EventItem, EventList } from './fields.ts';
import { eventFilters } from './query.ts';

/** Says which events there are, or what a search found. */
export function eventsDoc(view: EventList): Doc {
  const { items, filters, generatedAt: at, nextCursor, lookedBackTo } = view;
  const { q } = filters;
  const [first] = items;
  const reach = reachNotes(view);
  return {
    title: 'Events',
    lead:
      q === null
        ? 'Every event with the worst state of its deliveries, newest first.'
        : say`Events found by ${mono(q)}, newest first.`,
    section: 'events',
    at,
    filters: { path: eventsPath(), by: eventFilters, values: filters },
    blocks: [
      reach.length > 0 && {
        id: 'reach',
        drawn: () => html`<p class="muted small reach">${reach.map((note) => [note.html, ' '])}</p>`,
        lines: reach,
      },
      {
        id: 'events',
        ...(items.length > 0 && { title: q === null ? 'Newest first' : 'Found' }),
        list: itemList(view),
        empty: nothing(view),
      },
    ],
    nextCursor,
    position: lookedBackTo !== null && say`Looked back to ${toMinute(lookedBackTo, at)}: few events match.`,
    next: [first && ['Details', `why ${first.eventId}`]],
  };
}

function nothing(view: EventList): Empty {
  const { q, topic, state, subscriber, since } = view.filters;
  const { lookedBackTo, nextCursor, generatedAt } = view;
  if (lookedBackTo !== null && nextCursor !== null)
    return {
      title: 'No event so far',
      text: say`Looked back to ${toMinute(lookedBackTo, generatedAt)}.`,
      act: {
        button: ({ url }) =>
          html`<a class="btn" href="${withParameters(url, { cursor: nextCursor })}">Look further back</a>`,
      },
    };
  if (q !== null)
    return {
      title: `No event found by '${q}'`,
      text: 'Ids are compared whole, with their case. An event id may be shortened to its first 8 digits.',
      act: leads(eventsPath(), 'See the newest events', ''),
    };
  return [topic, state, subscriber, since].some((filter) => filter !== null)
    ? {
        title: 'No event matches these filters',
        text: 'Events that every subscriber received are kept for 30 days.',
        act: leads(eventsPath(), 'Clear filters', ''),
      }
    : {
        title: 'No events yet',
        text: 'Each event is listed here as soon as its transaction is committed.',
        act: leads(`${HOME}/catalog`, 'See the catalog', ''),
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
        terminal: { title: 'topic', isCut: true },
        cell: ({ eventId, topic, subject }) =>
          say`${link(eventPath(eventId), topic, 't')}${inConsole(below(subject).html)}`,
      },
      { label: 'State', cell: ({ state }) => statePhrase(state) },
      subscriber !== null && {
        label: subscriber,
        terminal: { title: subscriber },
        cell: deliveryPhrase,
      },
      {
        label: 'About',
        only: 'terminal',
        terminal: { isFlexible: true, leftOut: 'early' },
        cell: ({ subject }) => subject,
      },
      q !== null && {
        label: 'Found by',
        terminal: { isFlexible: true, leftOut: 'early' },
        cell: ({ foundBy }) => ({
          html: foundBy.map((by) => html`<span class="s wrap">${by}</span>`),
          text: foundBy.join(', '),
        }),
      },
      { label: 'Emitted', look: 'nowrap', cell: ({ createdAt }) => whenAndAgo(createdAt, now) },
      {
        label: 'Event id',
        look: 'mono nowrap',
        terminal: { title: 'event', leftOut: 'late' },
        cell: ({ eventId }) => ({ html: shortId(eventId), text: eventId }),
      },
    ],
    rows: items,
  };
}

function deliveryPhrase({ delivery }: EventItem): Phrase {
  if (delivery === null) return inConsole(html`<span class="muted">awaits its place</span>`);
  const { deliveryId, state } = delivery;
  return {
    html: html`<a class="mono" href="${deadLetterPath(deliveryId)}">${deliveryId}</a>
      <span class="s">${stateLabel(state)}</span>`,
    text: `${deliveryId} ${state}`,
  };
}

/** The events whose own id, or that of a delivery, was searched. */
export function namedItems(items: readonly EventItem[]): readonly EventItem[] {
  return items.filter(({ foundBy }) => foundBy.some((by) => by === 'event id' || by === 'delivery id'));
}

/** Says what a search leaves out. */
function reachNotes({ search, generatedAt: now }: EventList): readonly Phrase[] {
  if (search === null) return [];
  const { since, notSearched, includesPayloads } = search;
  const notes = [
    since !== null &&
      say`The index has events since ${toMinute(since, now)} and is working back. Older ones are found by their own id, or ${LISTED_BY_TOPIC}.`,
    notSearched > 0 &&
      say`${quantity(notSearched, 'new event')} ${notSearched === 1 ? 'is' : 'are'} not in the index yet: try again in a minute.`,
    !includesPayloads &&
      say`Payloads were not searched: only ids are looked for there, not words, dates or personal data.`,
  ];
  return notes.filter((note) => note !== false);
}

const LISTED_BY_TOPIC = { html: 'in the list of their topic', text: 'with --topic' };

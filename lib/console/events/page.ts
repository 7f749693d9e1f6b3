import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import { timeToMinute } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { eventsPath, HOME, withParameters } from '../kit/links.ts';
import { pager } from '../kit/pager.ts';
import { card, emptyCard, section } from '../kit/sections.ts';
import { select, sinceOptions, topicField } from '../kit/select.ts';
import { stateWord } from '../kit/states.ts';
import { capitalize } from '../kit/words.ts';
import type { EventList } from './fields.ts';
import { itemList, reachNotes } from './lists.ts';

const REFRESH_SECONDS = 15;

/** The topics and subscribers to choose from. */
type FilterTopics = readonly { readonly topic: string; readonly subscribers: readonly string[] }[];

/** Draws a list of events, or what a search found. */
export function eventsPage(view: EventList, context: PageContext, topics: FilterTopics): Html {
  const content = html`${heading({
    title: 'Events',
    lead: leadOf(view),
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${filterForm(view, topics)} ${reach(view)}
  ${view.items.length === 0 ? nothing(view, context) : list(view, context)}`;
  return layout({ title: 'Events', section: 'events', refreshSeconds: REFRESH_SECONDS, content }, context);
}

function leadOf({ filters: { q } }: EventList): Child {
  return q === null
    ? 'Every event with the worst state of its deliveries, newest first.'
    : html`Events found by <span class="mono">${q}</span>, newest first.`;
}

function filterForm({ filters }: EventList, topics: FilterTopics): Html {
  const { q, topic, state, subscriber, since } = filters;
  const subscribers = [...new Set(topics.flatMap((one) => one.subscribers))].toSorted();
  const isFiltered = [q, topic, state, subscriber, since].some((filter) => filter !== null);
  return html`<form class="filters bar" method="get" action="${eventsPath()}">
    ${q !== null && hiddenField('q', q)} ${topicField({ topic, names: topics.map((one) => one.topic) })}
    ${select('Subscriber', 'subscriber', subscriber, [['', 'All subscribers'], ...subscribers.map(named)])}
    ${select('State', 'state', state, STATES)} ${select('Emitted', 'since', since, sinceOptions(since))}
    <button class="btn">Apply</button>
    ${isFiltered && html`<a class="btn quiet" href="${eventsPath()}">Clear</a>`}
  </form>`;
}

const named = (name: string) => [name, name] as const;

const STATES = [
  ['', 'Any state'],
  ...(['pending', 'failing', 'dead_lettered', 'delivered'] as const).map(
    (state) => [state, capitalize(stateWord(state))] as const,
  ),
] as const;

function reach(view: EventList): Html | null {
  const notes = reachNotes(view);
  return notes.length === 0
    ? null
    : html`<p class="muted small reach">${notes.map((note) => [note.html, ' '])}</p>`;
}

function list(view: EventList, context: PageContext): Html {
  return section({
    id: 'events',
    title: view.filters.q === null ? 'Newest first' : 'Found',
    content: html`${card(listTable(itemList(view)))} ${listPager(view, context)}`,
  });
}

function listPager({ nextCursor, lookedBackTo, generatedAt }: EventList, { url }: PageContext): Html | null {
  const isFirst = !url.searchParams.has('cursor');
  if (nextCursor === null && isFirst) return null;
  const position =
    lookedBackTo === null
      ? null
      : html`Looked back to ${timeToMinute(lookedBackTo, generatedAt)}: few events match.`;
  return pager(position, [
    { words: 'Newest', path: isFirst ? null : withParameters(url, { cursor: null }), relation: 'first' },
    {
      words: lookedBackTo === null ? 'Older' : 'Look further back',
      path: nextCursor === null ? null : withParameters(url, { cursor: nextCursor }),
      relation: 'next',
    },
  ]);
}

function nothing(view: EventList, context: PageContext): Html {
  const { filters, lookedBackTo, nextCursor, generatedAt } = view;
  if (lookedBackTo !== null && nextCursor !== null) {
    return emptyCard({
      title: 'No event so far',
      text: html`Looked back to ${timeToMinute(lookedBackTo, generatedAt)}.`,
      action: html`<a class="btn" href="${withParameters(context.url, { cursor: nextCursor })}"
        >Look further back</a
      >`,
    });
  }
  if (filters.q !== null) {
    return emptyCard({
      title: 'No event found',
      text: 'Ids are compared whole, with their case. An event id may be shortened to its first 8 digits.',
      action: html`<a class="btn" href="${eventsPath()}">See the newest events</a>`,
    });
  }
  const isFiltered = [filters.topic, filters.state, filters.subscriber, filters.since].some(
    (filter) => filter !== null,
  );
  return isFiltered
    ? emptyCard({
        title: 'No event matches these filters',
        text: 'Events that every subscriber received are kept for 30 days.',
        action: html`<a class="btn" href="${eventsPath()}">Clear filters</a>`,
      })
    : emptyCard({
        title: 'No events yet',
        text: 'Each event is listed here as soon as its transaction is committed.',
        action: html`<a class="btn" href="${HOME}/catalog">See the catalog</a>`,
      });
}

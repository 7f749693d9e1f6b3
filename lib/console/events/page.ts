import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { timeAndAgo, timeToMinute } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, eventPath, eventsPath, HOME, withParameters } from '../kit/links.ts';
import { pager } from '../kit/pager.ts';
import { card, emptyCard, section } from '../kit/sections.ts';
import { select, sinceOptions } from '../kit/select.ts';
import { stateLabel, stateWord } from '../kit/states.ts';
import { table } from '../kit/table.ts';
import { capitalize, quantity, shortId } from '../kit/words.ts';
import type { EventItem, EventList } from './read.ts';

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
  ${filterForm(view, topics)} ${reachNote(view)}
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
    ${q !== null && hiddenField('q', q)}
    ${select('Topic', 'topic', topic, [['', 'All topics'], ...topics.map((one) => named(one.topic))])}
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

/** Says what a search leaves out. */
function reachNote({ search, generatedAt }: EventList): Html | null {
  if (search === null) return null;
  const { since, notSearched, includesPayloads } = search;
  const notes = [
    since !== null &&
      html`The index has events since ${timeToMinute(since, generatedAt)} and is working back. Older ones are
      found by their own id, or in the list of their topic.`,
    notSearched > 0 &&
      html`${quantity(notSearched, 'new event')} ${notSearched === 1 ? 'is' : 'are'} not in the index yet: try
      again in a minute.`,
    !includesPayloads &&
      html`Payloads were not searched: only ids are looked for there, not words, dates or personal data.`,
  ].filter((note) => note !== false);
  return notes.length === 0
    ? null
    : html`<p class="muted small reach">${notes.map((note) => [note, ' '])}</p>`;
}

function list(view: EventList, context: PageContext): Html {
  const { items, filters, generatedAt } = view;
  const { q, subscriber } = filters;
  return section({
    id: 'events',
    title: q === null ? 'Newest first' : 'Found',
    content: html`${card(
      table({
        name: 'Events',
        columns: [
          {
            label: 'Event',
            look: 'about',
            cell: ({ eventId, topic, subject }) =>
              html`<a class="t mono" href="${eventPath(eventId)}">${topic}</a
                ><span class="s">${subject}</span>`,
          },
          { label: 'State', cell: ({ state }) => stateLabel(state) },
          subscriber !== null && { label: subscriber, cell: deliveryCell },
          q !== null && {
            label: 'Found by',
            cell: ({ foundBy }) => foundBy.map((by) => html`<span class="s wrap">${by}</span>`),
          },
          { label: 'Emitted', look: 'nowrap', cell: ({ createdAt }) => timeAndAgo(createdAt, generatedAt) },
          { label: 'Event id', look: 'mono nowrap', cell: ({ eventId }) => shortId(eventId) },
        ],
        rows: items,
      }),
    )}
    ${listPager(view, context)}`,
  });
}

function deliveryCell({ delivery }: EventItem): Child {
  if (delivery === null) return html`<span class="muted">not fanned out yet</span>`;
  return html`<a class="mono nowrap" href="${deadLetterPath(delivery.deliveryId)}">${delivery.deliveryId}</a>
    <span class="s">${stateLabel(delivery.state)}</span>`;
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

import { html } from '../../platform/markup.ts';
import { below, inConsole, link, say, statePhrase, whenAndAgo } from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import { timeText, timeToMinute } from '../kit/instants.ts';
import { deadLetterPath, eventPath } from '../kit/links.ts';
import { stateLabel } from '../kit/states.ts';
import { quantity, shortId } from '../kit/words.ts';
import type { EventItem, EventList } from './fields.ts';

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
export function reachNotes({ search, generatedAt: now }: EventList): readonly Phrase[] {
  if (search === null) return [];
  const { since, notSearched, includesPayloads } = search;
  const notes = [
    since !== null &&
      say`The index has events since ${{ html: timeToMinute(since, now), text: timeText(since, now) }} and is working back. Older ones are found by their own id, or ${LISTED_BY_TOPIC}.`,
    notSearched > 0 &&
      say`${quantity(notSearched, 'new event')} ${notSearched === 1 ? 'is' : 'are'} not in the index yet: try again in a minute.`,
    !includesPayloads &&
      say`Payloads were not searched: only ids are looked for there, not words, dates or personal data.`,
  ];
  return notes.filter((note) => note !== false);
}

const LISTED_BY_TOPIC = { html: 'in the list of their topic', text: 'with --topic' };

import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import {
  errorPhrase,
  inConsole,
  link,
  listTable,
  say,
  statePhrase,
  subscriberPhrase,
  when,
} from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { duration } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, eventPath, eventsPath, tailPath } from '../kit/links.ts';
import { card, emptyCard, section } from '../kit/sections.ts';
import { select, topicField } from '../kit/select.ts';
import { stateWord } from '../kit/states.ts';
import { attemptsOf, capitalize } from '../kit/words.ts';
import type { Tail, TailItem } from './read.ts';

const REFRESH_SECONDS = 2;

/** Draws the newest outcomes. The script keeps adding to them, except while their reader is further down. */
export function tailPageOf(
  view: Tail,
  context: PageContext,
  names: { readonly topics: readonly string[]; readonly subscribers: readonly string[] },
): Html {
  const content = html`${heading({
    title: 'Live',
    lead: 'The newest outcomes of deliveries, newest first. The list stands still while you are further down, or select text.',
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
    actions: html`<a class="btn sm" href="${eventsPath()}">All events</a>`,
  })}
  ${filterForm(view, names)}
  ${view.items.length === 0 ? nothing(view) : section({ id: 'tail', title: 'Newest first', content: card(listTable(itemList(view))) })}`;
  return layout(
    { title: 'Live', section: 'live', refreshSeconds: REFRESH_SECONDS, isStill: true, content },
    context,
  );
}

function filterForm(
  { filters: { topic, subscriber, outcome } }: Tail,
  { topics, subscribers }: Parameters<typeof tailPageOf>[2],
): Html {
  const isFiltered = [topic, subscriber, outcome].some((filter) => filter !== null);
  return html`<form class="filters bar" method="get" action="${tailPath()}">
    ${topicField({ topic, names: topics })}
    ${select('Subscriber', 'subscriber', subscriber, [['', 'All subscribers'], ...subscribers.map(named)])}
    ${select('Outcome', 'outcome', outcome, OUTCOMES)}
    <button class="btn">Apply</button>
    ${isFiltered && html`<a class="btn quiet" href="${tailPath()}">Clear</a>`}
  </form>`;
}

const named = (name: string) => [name, name] as const;

const OUTCOMES = [
  ['', 'Any outcome'],
  ...(['delivered', 'failing', 'dead_lettered'] as const).map(
    (state) => [state, capitalize(stateWord(state))] as const,
  ),
] as const;

function nothing({ filters: { topic, subscriber, outcome } }: Tail): Html {
  const isFiltered = [topic, subscriber, outcome].some((filter) => filter !== null);
  return isFiltered
    ? emptyCard({
        title: 'No outcome matches these filters',
        text: 'Each is listed here as soon as it is there.',
        action: html`<a class="btn" href="${tailPath()}">Clear filters</a>`,
      })
    : emptyCard({
        title: 'Nothing was delivered yet',
        text: 'Each outcome is listed here as soon as it is there.',
      });
}

function itemList({ items, generatedAt: now }: Tail): List<TailItem> {
  return {
    name: 'Outcomes',
    columns: [
      { label: 'When', look: 'nowrap', cell: ({ at }) => when(at, now) },
      { label: 'Outcome', cell: ({ outcome }) => statePhrase(outcome) },
      {
        label: 'Event',
        look: 'about',
        cell: ({ eventId, topic, subject }) =>
          say`${link(eventPath(eventId), topic, 't')}${subject !== null && inConsole(html`<span class="s">${subject}</span>`)}`,
      },
      { label: 'Subscriber', cell: ({ subscriber, topic }) => subscriberPhrase(subscriber, topic) },
      {
        label: 'Delivery',
        look: 'nowrap',
        cell: ({ deliveryId }) => link(deadLetterPath(deliveryId), deliveryId),
      },
      { label: 'Attempts', tone: 'num', cell: attemptsCell },
      {
        label: 'Handler',
        tone: 'num',
        cell: ({ durationMs }) => (durationMs === null ? null : duration(durationMs)),
      },
      {
        label: 'Error',
        look: 'message',
        cell: ({ outcome, lastError }) =>
          outcome === 'delivered' || lastError === null ? null : errorPhrase(lastError),
      },
    ],
    rows: items,
  };
}

/** A dead letter and a delivery have all the attempts that they will have. */
function attemptsCell({ outcome, attempts, maxAttempts }: TailItem): string {
  return attemptsOf(attempts, outcome === 'failing' ? maxAttempts : null);
}

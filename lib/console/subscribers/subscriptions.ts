import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { topicPath } from '../kit/links.ts';
import { card, section } from '../kit/sections.ts';
import { limitWords, placeWords, secondsOf, waitingWords } from '../kit/subscription.ts';
import type { SubscriptionOptions } from '../kit/subscription.ts';
import { table } from '../kit/table.ts';
import type { Column } from '../kit/table.ts';
import { capitalize, quantity } from '../kit/words.ts';
import type { HealthSubscription, SubscriberHealth } from './read.ts';

/** More topics than this are folded away. */
const SHOWN = 3;

/** Draws where and how each topic is handled: one row for the topics that are handled alike. */
export function subscriptionsSection({ subscriber, subscriptions }: SubscriberHealth): Html | false {
  if (subscriptions.length === 0) return false;
  const groups = new Map<string, HealthSubscription[]>();
  for (const one of subscriptions) {
    const handling = JSON.stringify([one.place, one.options, one.invalidVariable]);
    groups.set(handling, [...(groups.get(handling) ?? []), one]);
  }
  return section({
    id: 'options',
    title: 'Subscriptions',
    hint: 'where each topic is handled, and with which options',
    content: card(
      table({
        name: 'Subscriptions',
        caption: `Where and how ${subscriber} receives its topics`,
        columns: [
          {
            label: 'Runs',
            isRowHeader: true,
            look: 'nowrap',
            cell: ({ place }) => capitalize(placeWords(place)),
          },
          { label: 'Topics', cell: ({ topics }) => topicList(topics) },
          {
            label: 'Handed over',
            look: ({ options }) => options === null && 'muted',
            span: ({ options }) => (options === null ? OPTIONS : 1),
            cell: (row) => (row.options === null ? capitalize(waitingWords(row)) : handedOver(row.options)),
          },
          { ...optionColumn('Time limit', (options) => `${secondsOf(options)} s`), tone: 'num' },
          { ...optionColumn('Attempts', ({ maxAttempts }) => maxAttempts), tone: 'num' },
          optionColumn('After a dead letter', ({ afterDeadLetter }) =>
            afterDeadLetter === 'halt' ? 'later events wait' : 'later events follow',
          ),
          optionColumn('When nobody answers', ({ outage }) =>
            outage === 'wait' ? 'deliveries wait' : 'each attempt fails',
          ),
          optionColumn('Replays', ({ onReplay }) => (onReplay === 'refuse' ? 'refused' : 'accepted')),
          optionColumn('Limit', (options) => limitWords(options) || 'none'),
        ],
        rows: Array.from(groups.values(), (alike) => ({
          ...alike[0]!,
          topics: alike.map(({ topic }) => topic),
        })),
      }),
    ),
  });
}

/** Columns of options, which are one where a subscription has none. */
const OPTIONS = 7;

/** Makes a column of an option, for rows whose subscription has options. */
function optionColumn(
  label: string,
  wordsOf: (options: SubscriptionOptions) => Child,
): Column<HealthSubscription> {
  return { label, cell: ({ options }) => options && wordsOf(options) };
}

function topicList(topics: readonly string[]): Html {
  const links = topics.map((topic) => html`<li><a class="mono" href="${topicPath(topic)}">${topic}</a></li>`);
  const list = html`<ul class="plain">
    ${links}
  </ul>`;
  if (topics.length <= SHOWN) return list;
  return html`<details>
    <summary>${quantity(topics.length, 'topic')}</summary>
    ${list}
  </details>`;
}

function handedOver({ batch, transactional, sharesCommits }: SubscriptionOptions): string {
  const how = batch ? 'in batches' : 'one by one';
  if (!transactional) return how;
  return sharesCommits || batch ? `${how}, in a transaction` : `${how}, each in its own transaction`;
}

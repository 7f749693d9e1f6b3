import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { topicPath } from '../kit/links.ts';
import { card, section } from '../kit/sections.ts';
import { placeWords, secondsOf, waitingWords } from '../kit/subscription.ts';
import type { SubscriptionOptions } from '../kit/subscription.ts';
import { table } from '../kit/table.ts';
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
          'Runs',
          'Topics',
          'Handed over',
          ['Time limit', 'num'],
          ['Attempts', 'num'],
          'After a dead letter',
          'When nobody answers',
          'Replays',
        ],
        rows: Array.from(groups.values(), groupRow),
      }),
    ),
  });
}

function groupRow(alike: readonly HealthSubscription[]): Html {
  const [one] = alike;
  const { place, options } = one!;
  return html`<tr class="r">
    <th class="row nowrap" scope="row">${capitalize(placeWords(place))}</th>
    <td>${topicList(alike.map(({ topic }) => topic))}</td>
    ${options === null ? html`<td colspan="6" class="muted">${capitalize(waitingWords(one!))}</td>` : optionCells(options)}
  </tr>`;
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

function optionCells(options: SubscriptionOptions): Html {
  const { maxAttempts, afterDeadLetter, outage, onReplay } = options;
  return html`<td>${handedOver(options)}</td>
    <td class="num">${secondsOf(options)} s</td>
    <td class="num">${maxAttempts}</td>
    <td>${afterDeadLetter === 'halt' ? 'later events wait' : 'later events follow'}</td>
    <td>${outage === 'wait' ? 'deliveries wait' : 'each attempt fails'}</td>
    <td>${onReplay === 'refuse' ? 'refused' : 'accepted'}</td>`;
}

function handedOver({ batch, transactional, sharesCommits }: SubscriptionOptions): string {
  const how = batch ? 'in batches' : 'one by one';
  if (!transactional) return how;
  return sharesCommits || batch ? `${how}, in a transaction` : `${how}, each in its own transaction`;
}

import { html } from '../../platform/markup.ts';
import { actWords } from '../kit/acts.ts';
import { below, countColumn, inConsole, link, phraseOf, say, whenAndAgo } from '../kit/document.ts';
import type { List, ListColumn, Phrase } from '../kit/document.ts';
import { deadLetterPath, replayedPath, topicPath } from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { placeWords, uncommonOptions, waitingWords } from '../kit/subscription.ts';
import { absent } from '../kit/table.ts';
import { capitalize, count, quantity } from '../kit/words.ts';
import { ageWords, intervalWords, isEmpty, timesWords } from './figures.ts';
import type { HealthAction, HealthInterval, HealthSubscription, SubscriberHealth } from './read.ts';

/** The values of the charts. Of two times the first is p50, the second p95. */
export function valueList({ intervals, span }: SubscriberHealth): List<HealthInterval> {
  const one = span === 'hours' ? 'Hour' : 'Day';
  return {
    name: 'Values',
    caption: `The values by the ${one.toLowerCase()}, newest first; ${one.toLowerCase()}s without any are left out`,
    columns: [
      {
        label: one,
        isRowHeader: true,
        look: 'nowrap',
        cell: ({ startsAt }) => {
          const text = intervalWords(startsAt, span);
          // Days are those of UTC.
          const day =
            span === 'days' ? text : html`<time datetime="${startsAt}" data-to="weekday">${text}</time>`;
          return { html: day, text };
        },
      },
      countColumn('Delivered', ({ delivered }) => delivered),
      {
        ...countColumn('After a replay', ({ replays }) => replays.delivered),
        terminal: { title: 'replayed', leftOut: 'early' },
        cell: ({ replays: { delivered } }) => (delivered > 0 ? count(delivered) : inConsole('0')),
      },
      countColumn('Failed attempts', ({ failedAttempts }) => failedAttempts, {
        style: 'yellow',
        title: 'failed',
      }),
      countColumn('Dead letters', ({ deadLettered, replays }) => deadLettered + replays.deadLettered, {
        style: 'red',
        title: 'dead',
      }),
      textColumn(
        'Longest wait',
        ({ backlogAgeSeconds: age }) => (age === null ? null : ageWords(age)),
        'backlog',
      ),
      textColumn('Delivered in', ({ deliveredInMs }) => deliveredInMs && timesWords(deliveredInMs)),
      textColumn('Handler', ({ handlerMs }) => handlerMs && timesWords(handlerMs)),
    ],
    rows: intervals.filter((interval) => !isEmpty(interval)).toReversed(),
  };
}

/** @param wordsIn null where an interval has no value. */
function textColumn(
  label: string,
  wordsIn: (interval: HealthInterval) => string | null,
  title = label.toLowerCase(),
): ListColumn<HealthInterval> {
  return {
    label,
    tone: 'num',
    look: (interval) => (wordsIn(interval) === null ? 'zero' : 'nowrap'),
    terminal: { title },
    cell: (interval) => wordsIn(interval) ?? inConsole(absent('none')),
  };
}

/** What operators did. */
export function actionList(
  { actions, generatedAt: now }: SubscriberHealth,
  names: OperatorNames,
): List<HealthAction> {
  return {
    name: 'Operators’ actions',
    caption: 'Operators’ actions, newest first',
    columns: [
      { label: 'When', look: 'nowrap', cell: ({ at }) => whenAndAgo(at, now) },
      { label: 'What', look: 'nowrap', cell: whatPhrase },
      { label: 'On', terminal: { isFlexible: true }, cell: targetPhrase },
      { label: 'Who', look: 'nowrap', cell: ({ operator }) => operatorText(operator, names) },
      {
        label: 'Why',
        look: 'message',
        terminal: { isFlexible: true },
        cell: ({ reason }) => reason ?? inConsole(NO_REASON),
      },
    ],
    rows: actions,
  };
}

const NO_REASON = html`<span class="muted">no reason given</span>`;

function whatPhrase({ action, deliveries, replayId }: HealthAction): Phrase {
  const text = actWords(action, deliveries);
  const what = capitalize(text);
  return { html: replayId === null ? what : html`<a href="${replayedPath(replayId)}">${what}</a>`, text };
}

function targetPhrase({ topic, deliveryId, replayId }: HealthAction): Phrase {
  const none = replayId === null ? 'all its topics' : 'chosen deliveries';
  const where = phraseOf(topic === null ? none : link(topicPath(topic), topic, 'roomy'));
  if (deliveryId === null) return where;
  const delivery = link(deadLetterPath(deliveryId), deliveryId, 'roomy');
  return { html: say`${where}${below(say`delivery ${delivery}`)}`.html, text: deliveryId };
}

/** Where and how it receives its topics: one row for those that are handled alike. */
export function subscriptionList({ subscriber, subscriptions }: SubscriberHealth): List<Alike> {
  const groups = new Map<string, HealthSubscription[]>();
  for (const one of subscriptions) {
    const handling = JSON.stringify([one.place, one.options, one.invalidVariable]);
    groups.set(handling, [...(groups.get(handling) ?? []), one]);
  }
  return {
    name: 'Subscriptions',
    caption: `Where and how ${subscriber} receives its topics`,
    columns: [
      {
        label: 'Runs',
        isRowHeader: true,
        look: 'nowrap',
        cell: ({ place }) => capitalize(placeWords(place)),
      },
      { label: 'Topics', terminal: { isFlexible: true }, cell: ({ topics }) => topicsPhrase(topics) },
      { label: 'Options', look: 'wrap', terminal: { isFlexible: true }, cell: optionsWords },
    ],
    rows: Array.from(groups.values(), (alike) => ({
      ...alike[0]!,
      topics: alike.map(({ topic }) => topic),
    })),
  };
}

type Alike = HealthSubscription & { readonly topics: readonly string[] };

/** More topics than this are folded away. */
const SHOWN = 3;

function topicsPhrase(topics: readonly string[]): Phrase {
  const list = html`<ul class="plain">
    ${topics.map((topic) => html`<li><a class="mono" href="${topicPath(topic)}">${topic}</a></li>`)}
  </ul>`;
  if (topics.length <= SHOWN) return { html: list, text: topics.join(', ') };
  const summary = quantity(topics.length, 'topic');
  return {
    html: html`<details>
      <summary>${summary}</summary>
      ${list}
    </details>`,
    text: summary,
  };
}

function optionsWords(one: HealthSubscription): string {
  if (one.options === null) return capitalize(waitingWords(one));
  return uncommonOptions(one).join(', ') || 'defaults';
}

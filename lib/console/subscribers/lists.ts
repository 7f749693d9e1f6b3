import { html } from '../../platform/markup.ts';
import { actWords } from '../kit/acts.ts';
import { below, countColumn, inConsole, link, phraseOf, say, whenAndAgo } from '../kit/document.ts';
import type { List, ListColumn, Phrase } from '../kit/document.ts';
import { deadLetterPath, replayedPath, topicPath } from '../kit/links.ts';
import { NO_NAMES, operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { absent } from '../kit/table.ts';
import { capitalize, count } from '../kit/words.ts';
import { ageWords, intervalWords, isEmpty, timeWords, timesWords } from './figures.ts';
import type { HealthAction, HealthInterval, SubscriberHealth, Times } from './read.ts';

/** The values of the charts, for screen readers and for reading. */
export function valueList({ intervals, span }: SubscriberHealth): List<HealthInterval> {
  const one = span === 'hours' ? 'Hour' : 'Day';
  return {
    name: 'The values of the charts',
    caption: `The values of the charts, newest first; ${one.toLowerCase()}s without any are left out`,
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
      textColumn('Backlog', ({ backlogAgeSeconds: age }) => (age === null ? null : ageWords(age))),
      ...timesColumns('Delivered in', ({ deliveredInMs }) => deliveredInMs),
      ...timesColumns('Handler', ({ handlerMs }) => handlerMs),
    ],
    rows: intervals.filter((interval) => !isEmpty(interval)).toReversed(),
  };
}

/** @param wordsIn null where an interval has no value. */
function textColumn(
  label: string,
  wordsIn: (interval: HealthInterval) => string | null,
): ListColumn<HealthInterval> {
  return {
    label,
    tone: 'num',
    look: (interval) => wordsIn(interval) === null && 'zero',
    cell: (interval) => wordsIn(interval) ?? inConsole(absent('none')),
  };
}

/** Two columns in a browser, and one in a terminal. */
function timesColumns(
  label: string,
  timesIn: (interval: HealthInterval) => Times,
): ListColumn<HealthInterval>[] {
  const quantile = (of: 'p50' | 'p95') =>
    textColumn(`${label}: ${of}`, (interval) => {
      const times = timesIn(interval);
      return times && timeWords(times[of]);
    });
  return [
    { ...quantile('p50'), only: 'console' },
    { ...quantile('p95'), only: 'console' },
    { label, tone: 'num', only: 'terminal', cell: (interval) => timesWords(timesIn(interval)) },
  ];
}

/** What operators did, numbered as in the charts. */
export function actionList(
  { actions, generatedAt: now }: SubscriberHealth,
  names: OperatorNames = NO_NAMES,
): List<NumberedAction> {
  return {
    name: 'Operators’ actions',
    caption: 'Operators’ actions, numbered as in the charts, newest first',
    columns: [
      { label: 'No.', tone: 'num', only: 'console', cell: ({ number }) => number },
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
    rows: actions.map((action, index) => ({ ...action, number: actions.length - index })),
  };
}

type NumberedAction = HealthAction & { readonly number: number };

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

import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { card, emptyLine } from '../kit/sections.ts';
import { absent, numberColumn, table } from '../kit/table.ts';
import type { Column } from '../kit/table.ts';
import { ageWords, intervalWords, isEmpty, timeWords } from './figures.ts';
import type { HealthInterval, SubscriberHealth } from './read.ts';

/** Lists the values of the charts, for screen readers and for reading. */
export function valuesTable({ intervals, span }: SubscriberHealth): Html {
  const shown = intervals.filter((one) => !isEmpty(one)).toReversed();
  const one = span === 'hours' ? 'Hour' : 'Day';
  return card(
    html`<details class="more">
      <summary>The values as a table</summary>
      ${
        shown.length === 0
          ? emptyLine('Nothing happened in this time.')
          : table({
              name: 'The values of the charts',
              caption: `The values of the charts, newest first; ${one.toLowerCase()}s without any are left out`,
              columns: columnsOf(one, span),
              rows: shown,
            })
      }
    </details>`,
  );
}

/** @param one names an interval. */
function columnsOf(one: string, span: SubscriberHealth['span']): Column<HealthInterval>[] {
  return [
    {
      label: one,
      isRowHeader: true,
      look: 'nowrap',
      cell: ({ startsAt }) => html`<time datetime="${startsAt}">${intervalWords(startsAt, span)}</time>`,
    },
    numberColumn('Delivered', ({ delivered }) => delivered),
    numberColumn('After a replay', ({ replays }) => replays.delivered),
    numberColumn('Failed attempts', ({ failedAttempts }) => failedAttempts),
    numberColumn('Dead letters', ({ deadLettered, replays }) => deadLettered + replays.deadLettered),
    textColumn('Backlog', ({ backlogAgeSeconds: age }) => (age === null ? null : ageWords(age))),
    textColumn('Delivered in: p50', ({ deliveredInMs: ms }) => ms && timeWords(ms.p50)),
    textColumn('Delivered in: p95', ({ deliveredInMs: ms }) => ms && timeWords(ms.p95)),
    textColumn('Handler: p50', ({ handlerMs: ms }) => ms && timeWords(ms.p50)),
    textColumn('Handler: p95', ({ handlerMs: ms }) => ms && timeWords(ms.p95)),
  ];
}

/** @param wordsIn null where an interval has no value. */
function textColumn(
  label: string,
  wordsIn: (interval: HealthInterval) => string | null,
): Column<HealthInterval> {
  return {
    label,
    tone: 'num',
    look: (interval) => wordsIn(interval) === null && 'zero',
    cell: (interval) => wordsIn(interval) ?? absent('none'),
  };
}

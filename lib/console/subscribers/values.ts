import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { card, emptyLine } from '../kit/sections.ts';
import { table } from '../kit/table.ts';
import { count } from '../kit/words.ts';
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
              columns: [
                one,
                ['Delivered', 'num'],
                ['After a replay', 'num'],
                ['Failed attempts', 'num'],
                ['Dead letters', 'num'],
                ['Backlog', 'num'],
                ['Delivered in: p50', 'num'],
                ['Delivered in: p95', 'num'],
                ['Handler: p50', 'num'],
                ['Handler: p95', 'num'],
              ],
              rows: shown.map((interval) => valueRow(interval, intervalWords(interval.startsAt, span))),
            })
      }
    </details>`,
  );
}

function valueRow(interval: HealthInterval, name: string): Html {
  const { delivered, replays, failedAttempts, deadLettered, deliveredInMs, handlerMs } = interval;
  return html`<tr class="r">
    <th class="row nowrap" scope="row"><time datetime="${interval.startsAt}">${name}</time></th>
    ${[delivered, replays.delivered, failedAttempts, deadLettered + replays.deadLettered].map(numberCell)}
    ${textCell(interval.backlogAgeSeconds === null ? null : ageWords(interval.backlogAgeSeconds))}
    ${[deliveredInMs, handlerMs].map(
      (times) => html`${textCell(times && timeWords(times.p50))} ${textCell(times && timeWords(times.p95))}`,
    )}
  </tr>`;
}

function numberCell(number: number): Html {
  return number === 0 ? html`<td class="num zero">0</td>` : html`<td class="num">${count(number)}</td>`;
}

function textCell(words: string | null): Html {
  return words === null
    ? html`<td class="num zero"><span aria-hidden="true">–</span><span class="vh">none</span></td>`
    : html`<td class="num">${words}</td>`;
}

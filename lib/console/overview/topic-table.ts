import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { silenceWords } from '../incidents/outage.ts';
import { mayReplay, replayLink } from '../kit/actions.ts';
import { CLOCK_ICON, HALT_ICON, PAUSE_ICON, SILENT_ICON } from '../kit/icons.ts';
import { age, ago, timeToMinute, until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLettersPath, topicPath, withParameters } from '../kit/links.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count, quantity, quantityOfLanes } from '../kit/words.ts';
import { isLate, searchWords, subscribersToShow } from './attention.ts';
import type { Sort } from './attention.ts';
import type { Overview, SubscriberOverview, TopicOverview } from './read.ts';
import { spark } from './spark.ts';

interface TopicTable {
  readonly view: Overview;
  readonly context: PageContext;
  readonly sort: Sort;
  readonly topics: readonly TopicOverview[];
  readonly name: string;
}

/** Draws topics with their events, and below each its subscribers in trouble. */
export function topicTable({ view, context, sort, topics, name }: TopicTable): Html {
  const headingOf = (by: Sort, words: string) => sortHeading(by, words, sort, context.url);
  return table({
    name,
    caption: `${name}: events by state, and deliveries of subscribers in trouble`,
    columns: [
      headingOf('topic', 'Topic'),
      headingOf('pending', 'Pending'),
      headingOf('oldest', 'Oldest due'),
      headingOf('failing', 'Failing'),
      ['Next retry', 'num'],
      headingOf('dead', 'Dead letters'),
      LAST_DAY,
      ACTIONS,
    ],
    groups: topics.map((topic) => topicRows(topic, view.generatedAt, context)),
  });
}

const LAST_DAY = {
  label: 'Last 24 h',
  heading: html`<th scope="col" role="columnheader">
    Last 24 h<span class="key"><i></i>delivered</span><span class="key"><i class="d"></i>dead-lettered</span>
  </th>`,
};

function sortHeading(by: Sort, words: string, current: Sort, url: URL) {
  const [tone, arrow, direction] =
    by === 'topic' ? (['', '↑', 'ascending'] as const) : (['num', '↓', 'descending'] as const);
  const isCurrent = by === current;
  const heading = html`<th
    class="${tone}"
    scope="col"
    role="columnheader"
    ${isCurrent && html`aria-sort="${direction}"`}
  >
    <a href="${withParameters(url, { sort: by })}"
      >${words}${isCurrent && html`<span aria-hidden="true"> ${arrow}</span>`}</a
    >
  </th>`;
  return { label: words, heading };
}

function topicRows(topic: TopicOverview, now: string, { operator }: PageContext): Html {
  const dead = topic.deadLettered;
  return html`<tbody data-words="${searchWords(topic)}">
    <tr class="r">
      <th class="row" scope="row">
        <a class="t mono" href="${topicPath(topic.topic)}">${topic.topic}</a
        ><span class="s ${topic.inCatalog && 'nowrap'}"
          >${topic.inCatalog ? html`${topic.producer} → ` : html`${NOT_IN_CATALOG} `}${quantity(
            topic.subscribers.length,
            'subscriber',
          )}</span
        >
        ${
          topic.heldBackSince !== null &&
          html`<span class="s fail-t"
            >held back since ${timeToMinute(topic.heldBackSince, now)} by
            ${topic.heldBackBy === null ? 'an open' : 'a prepared'} transaction of its producer</span
          >`
        }
      </th>
      ${countCells(topic, now, { topic: topic.topic, of: `on ${topic.topic}` })}
      <td>${spark(topic.topic, topic.hours)}</td>
      <td class="end">
        <div class="acts">
          ${dead > 0 && topic.inCatalog && mayReplay(operator) && replayLink(topic.topic, { topic: topic.topic, since: ALL_TIME })}
        </div>
      </td>
    </tr>
    ${subscribersToShow(topic).map((subscriber) => subscriberRow(topic, subscriber, now))}
  </tbody>`;
}

function subscriberRow(row: TopicOverview, one: SubscriberOverview, now: string): Html {
  const { topic } = row;
  const { subscriber, lastDeliveredAt } = one;
  const last = lastDeliveredAt === null ? 'never delivered' : `last delivered ${ago(lastDeliveredAt, now)}`;
  return html`<tr class="r sub">
    <th class="row" scope="row">${subscriberLink(subscriber, topic)} ${subscriberTags(one, row)}</th>
    ${countCells(one, now, { topic, subscriber, of: `of ${subscriber} on ${topic}` })}
    <td class="muted small" colspan="2">${last}${pauseLine(one, now)}${outageLine(one, now)}</td>
  </tr>`;
}

const NOT_ATTACHED = 'This deployment has no handler and no endpoint for it. Its deliveries wait.';
const NOT_IN_CATALOG = html`<span class="tag">not in this release’s catalog</span>`;

/** Says why a subscriber's deliveries wait, such as `paused`, unless its topic's row already does. */
export function subscriberTags(
  { inCatalog, neededVersion, attached, paused, outage, haltedLanes }: SubscriberOverview,
  topic: TopicOverview,
): Html {
  return html`${!inCatalog && topic.inCatalog && NOT_IN_CATALOG}
  ${inCatalog && !attached && html`<span class="tag" title="${NOT_ATTACHED}">not attached</span>`}
  ${neededVersion !== null && html`<span class="tag late">waits for a release that reads version ${neededVersion}</span>`}
  ${paused && html`<span class="tag late">${PAUSE_ICON}paused</span>`}
  ${outage !== null && html`<span class="tag halted">${SILENT_ICON}does not answer</span>`}
  ${haltedLanes > 0 && html`<span class="tag halted">${HALT_ICON}${quantityOfLanes(haltedLanes)} halted</span>`}`;
}

/** Says who paused the subscriber, when and why. */
export function pauseLine({ pause }: SubscriberOverview, now: string): Child {
  if (pause === null) return null;
  const scope = pause.topic === null ? ', all its topics' : '';
  return html`<span class="s why"
    >paused by ${pause.pausedBy}, ${timeToMinute(pause.pausedAt, now)}${scope}: ${pause.reason}</span
  >`;
}

/** Says since when the subscriber does not answer, and when the next delivery probes. */
export function outageLine({ outage }: SubscriberOverview, now: string): Child {
  if (outage === null) return null;
  const { kind, since, nextProbeAt } = outage;
  return html`<span class="s why"
    >${silenceWords(kind)} since ${timeToMinute(since, now)}; next probe ${until(nextProbeAt, now)}</span
  >`;
}

type Counted = Pick<
  TopicOverview,
  'pending' | 'oldestDueAgeSeconds' | 'failing' | 'nextRetryAt' | 'deadLettered'
>;

/** Draws five cells of numbers, those without anything to show in grey. */
export function countCells(
  { pending, oldestDueAgeSeconds, failing, nextRetryAt, deadLettered }: Counted,
  now: string,
  { topic, subscriber, of }: { readonly topic: string; readonly subscriber?: string; readonly of: string },
): Html {
  return html`${numberCell(pending)}
  ${oldestDueAgeSeconds === null ? absentCell('none due') : html`<td class="num">${due(oldestDueAgeSeconds)}</td>`}
  ${
    failing > 0
      ? html`<td class="num">
          <a class="n fail" href="${topicPath(topic)}#held"
            >${count(failing)}<span class="vh"> failing ${of}</span></a
          >
        </td>`
      : numberCell(0)
  }
  ${
    nextRetryAt === null
      ? absentCell('no retry planned')
      : html`<td class="num">${until(nextRetryAt, now)}</td>`
  }
  ${
    deadLettered > 0
      ? html`<td class="num">
          <a class="n dead" href="${deadLettersPath({ topic, subscriber })}"
            >${count(deadLettered)}<span class="vh"> dead letters ${of}</span></a
          >
        </td>`
      : numberCell(0)
  }`;
}

function due(seconds: number): Html | string {
  return isLate(seconds) ? html`<span class="tag late">${CLOCK_ICON}${age(seconds)}</span>` : age(seconds);
}

function numberCell(number: number): Html {
  return number === 0 ? html`<td class="num zero">0</td>` : html`<td class="num">${count(number)}</td>`;
}

function absentCell(words: string): Html {
  return html`<td class="num zero"><span aria-hidden="true">–</span><span class="vh">${words}</span></td>`;
}

import type { Overview, SubscriberOverview, TopicOverview } from './read.ts';
import { mayReplay, replayLink } from '../page/acts.ts';
import { isLate, searchWords, subscribersToTell } from './attention.ts';
import type { Sort } from './attention.ts';
import { CLOCK_ICON, PAUSE_ICON } from '../page/icons.ts';
import { age, ago, toTheMinute, until } from '../page/instants.ts';
import { deadLettersPath, EVER, sameWith, topicPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import type { PageContext } from '../page/layout.ts';
import { spark } from './spark.ts';
import { count, counted } from '../page/words.ts';

interface TopicTable {
  readonly view: Overview;
  readonly context: PageContext;
  readonly sort: Sort;
  readonly topics: readonly TopicOverview[];
  readonly name: string;
}

/** Topics with their events, and below each the subscribers there is something to tell about. */
export function topicTable({ view, context, sort, topics, name }: TopicTable): Html {
  const sortLink = (by: Sort, words: string) => sortable(by, words, sort, context.url);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${name}" data-group>
    <table class="wide-table">
      <caption class="vh">
        ${name}: events by state, and deliveries of subscribers in trouble
      </caption>
      <thead>
        <tr>
          ${sortLink('topic', 'Topic')} ${sortLink('pending', 'Pending')} ${sortLink('oldest', 'Oldest due')}
          ${sortLink('failing', 'Failing')}
          <th class="num" scope="col">Next retry</th>
          ${sortLink('dead', 'Dead letters')}
          <th scope="col">
            Last 24 h<span class="key"><i></i>delivered</span><span class="key"><i class="d"></i>dead</span>
          </th>
          <th class="last" scope="col"><span class="vh">Actions</span></th>
        </tr>
      </thead>
      ${topics.map((topic) => topicRows(topic, view.generatedAt, context))}
    </table>
  </div>`;
}

function sortable(by: Sort, words: string, current: Sort, url: URL): Html {
  const isText = by === 'topic';
  const link = html`<a href="${sameWith(url, { sort: by })}"
    >${words}${by === current && html`<span aria-hidden="true"> ${isText ? '↑' : '↓'}</span>`}</a
  >`;
  const shape = isText ? 'first' : 'num';
  return by === current
    ? html`<th class="${shape}" scope="col" aria-sort="${isText ? 'ascending' : 'descending'}">${link}</th>`
    : html`<th class="${shape}" scope="col">${link}</th>`;
}

function topicRows(topic: TopicOverview, now: string, { operator }: PageContext): Html {
  const dead = topic.deadLettered;
  return html`<tbody data-words="${searchWords(topic)}">
    <tr class="r">
      <th class="first row" scope="row">
        <a class="t mono" href="${topicPath(topic.topic)}">${topic.topic}</a
        ><span class="s"
          >${topic.inCatalog ? html`${topic.producer} → ` : html`${NOT_IN_CATALOG} `}${counted(
            topic.subscribers.length,
            'subscriber',
          )}</span
        >
        ${
          topic.heldBackSince !== null &&
          html`<span class="s fail-t"
            >held back since ${toTheMinute(topic.heldBackSince, now)} by an open transaction of its
            producer</span
          >`
        }
      </th>
      ${countCells(topic, now, { topic: topic.topic, of: `on ${topic.topic}` })}
      <td>${spark(topic.topic, topic.hours)}</td>
      <td class="last">
        <div class="acts">
          ${dead > 0 && topic.inCatalog && mayReplay(operator) && replayLink(topic.topic, { topic: topic.topic, since: EVER })}
        </div>
      </td>
    </tr>
    ${subscribersToTell(topic).map((subscriber) => subscriberRow(topic, subscriber, now))}
  </tbody>`;
}

function subscriberRow(row: TopicOverview, one: SubscriberOverview, now: string): Html {
  const { topic } = row;
  const { subscriber, lastDeliveredAt } = one;
  const last = lastDeliveredAt === null ? 'never delivered' : `last delivered ${ago(lastDeliveredAt, now)}`;
  return html`<tr class="r sub">
    <th class="first row" scope="row"><span class="mono">${subscriber}</span> ${subscriberTags(one, row)}</th>
    ${countCells(one, now, { topic, subscriber, of: `of ${subscriber} on ${topic}` })}
    <td class="muted small" colspan="2">${last}${pauseWords(one, now)}</td>
  </tr>`;
}

const NOT_IN_CATALOG = html`<span class="tag">not in this release’s catalog</span>`;

/** `unattached`, `paused`: why a subscriber's deliveries wait. What its topic already says is not said again. */
export function subscriberTags(
  { inCatalog, neededVersion, attached, paused }: SubscriberOverview,
  topic: TopicOverview,
): Html {
  return html`${!inCatalog && topic.inCatalog && NOT_IN_CATALOG}
  ${inCatalog && !attached && html`<span class="tag">unattached</span>`}
  ${neededVersion !== null && html`<span class="tag late">waits for a release that reads version ${neededVersion}</span>`}
  ${paused && html`<span class="tag late">${PAUSE_ICON}paused</span>`}`;
}

/** Who paused it, when and why. */
export function pauseWords({ pause }: SubscriberOverview, now: string): Child {
  if (pause === null) return null;
  const scope = pause.topic === null ? ', all its topics' : '';
  return html`<span class="s why"
    >paused by ${pause.pausedBy}, ${toTheMinute(pause.pausedAt, now)}${scope}: ${pause.reason}</span
  >`;
}

type Counted = Pick<
  TopicOverview,
  'pending' | 'oldestDueAgeSeconds' | 'failing' | 'nextRetryAt' | 'deadLettered'
>;

/** The five cells of numbers; what is zero or absent steps back. */
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
          <a class="n-fail" href="${topicPath(topic)}#held"
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
          <a class="n-dead" href="${deadLettersPath({ topic, subscriber })}"
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

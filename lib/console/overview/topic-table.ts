import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { silenceWords } from '../incidents/outage.ts';
import { mayReplay, replayLink } from '../kit/actions.ts';
import { CLOCK_ICON, HALT_ICON, PAUSE_ICON, SILENT_ICON } from '../kit/icons.ts';
import { age, ago, timeToMinute, until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLettersPath, topicPath, withParameters } from '../kit/links.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { absent, ACTIONS, numberColumn, table } from '../kit/table.ts';
import type { Column } from '../kit/table.ts';
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

/** A topic, or below it one of its subscribers. */
interface TopicRow extends CountedRow {
  readonly topic: TopicOverview;
  readonly one: SubscriberOverview | null;
}

/** Draws topics with their events, and below each its subscribers in trouble. */
export function topicTable({ view, context, sort, topics, name }: TopicTable): Html {
  const now = view.generatedAt;
  const { pending, oldestDue, failing, nextRetry, deadLetters } = countColumns(now);
  const sortable = (by: Sort, column: Column<TopicRow>) => sortableColumn(by, column, sort, context.url);
  return table({
    name,
    caption: `${name}: events by state, and deliveries of subscribers in trouble`,
    columns: [
      sortable('topic', { label: 'Topic', isRowHeader: true, cell: (row) => nameOf(row, now) }),
      sortable('pending', pending),
      sortable('oldest', oldestDue),
      sortable('failing', failing),
      nextRetry,
      sortable('dead', deadLetters),
      {
        label: 'Last 24 h',
        heading: LAST_DAY,
        look: ({ one }) => one !== null && 'muted small',
        span: ({ one }) => (one === null ? 1 : 2),
        cell: ({ topic, one }) =>
          one === null ? spark(topic.topic, topic.hours) : stateOfSubscriber(one, now),
      },
      { ...ACTIONS, cell: ({ topic }) => topicActions(topic, context) },
    ],
    groups: topics.map((topic) => ({ words: searchWords(topic), rows: rowsOf(topic) })),
    rowLook: ({ one }) => (one === null ? 'r' : 'r sub'),
  });
}

const LAST_DAY = html`Last 24 h<span class="key"><i></i>delivered</span
  ><span class="key"><i class="d"></i>dead-lettered</span>`;

function sortableColumn(by: Sort, column: Column<TopicRow>, current: Sort, url: URL): Column<TopicRow> {
  const [arrow, direction] = by === 'topic' ? (['↑', 'ascending'] as const) : (['↓', 'descending'] as const);
  const isCurrent = by === current;
  const heading = html`<a href="${withParameters(url, { sort: by })}"
    >${column.label}${isCurrent && html`<span aria-hidden="true"> ${arrow}</span>`}</a
  >`;
  return { ...column, heading, ...(isCurrent && { sorted: direction }) };
}

function rowsOf(topic: TopicOverview): TopicRow[] {
  const name = topic.topic;
  return [
    { topic, one: null, counts: topic, of: `on ${name}`, deadLettersOf: { topic: name } },
    ...subscribersToShow(topic).map((one) => ({
      topic,
      one,
      counts: one,
      of: `of ${one.subscriber} on ${name}`,
      deadLettersOf: { topic: name, subscriber: one.subscriber },
    })),
  ];
}

function nameOf({ topic, one }: TopicRow, now: string): Html {
  if (one !== null) return html`${subscriberLink(one.subscriber, topic.topic)} ${subscriberTags(one, topic)}`;
  return html`<a class="t mono" href="${topicPath(topic.topic)}">${topic.topic}</a
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
    }`;
}

function topicActions({ topic, deadLettered, inCatalog }: TopicOverview, { operator }: PageContext): Html {
  return html`<div class="acts">
    ${deadLettered > 0 && inCatalog && mayReplay(operator) && replayLink(topic, { topic, since: ALL_TIME })}
  </div>`;
}

function stateOfSubscriber(one: SubscriberOverview, now: string): Html {
  const { lastDeliveredAt } = one;
  const last = lastDeliveredAt === null ? 'never delivered' : `last delivered ${ago(lastDeliveredAt, now)}`;
  return html`${last}${pauseLine(one, now)}${outageLine(one, now)}`;
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

/** Events or deliveries in each state that still needs something, in a row of a table. */
interface CountedRow {
  readonly counts: Pick<
    TopicOverview,
    'pending' | 'oldestDueAgeSeconds' | 'failing' | 'nextRetryAt' | 'deadLettered'
  >;
  /** Whose they are, for screen readers that list links. */
  readonly of: string;
  /** Where its dead letters are listed. */
  readonly deadLettersOf: { readonly topic: string; readonly subscriber?: string };
}

/** Makes the columns of counts, in which rows without any have something grey. */
export function countColumns(
  now: string,
): Record<'pending' | 'oldestDue' | 'failing' | 'nextRetry' | 'deadLetters', Column<CountedRow>> {
  return {
    pending: numberColumn('Pending', ({ counts }) => counts.pending),
    oldestDue: {
      label: 'Oldest due',
      tone: 'num',
      look: ({ counts }) => counts.oldestDueAgeSeconds === null && 'zero',
      cell: ({ counts: { oldestDueAgeSeconds: seconds } }) =>
        seconds === null ? absent('none due') : due(seconds),
    },
    failing: {
      ...numberColumn<CountedRow>('Failing', ({ counts }) => counts.failing),
      cell: ({ counts: { failing }, of, deadLettersOf: { topic } }) =>
        failing > 0
          ? html`<a class="n fail" href="${topicPath(topic)}#held"
              >${count(failing)}<span class="vh"> failing ${of}</span></a
            >`
          : '0',
    },
    nextRetry: {
      label: 'Next retry',
      tone: 'num',
      look: ({ counts }) => counts.nextRetryAt === null && 'zero',
      cell: ({ counts: { nextRetryAt } }) =>
        nextRetryAt === null ? absent('no retry planned') : until(nextRetryAt, now),
    },
    deadLetters: {
      ...numberColumn<CountedRow>('Dead letters', ({ counts }) => counts.deadLettered),
      cell: ({ counts: { deadLettered }, of, deadLettersOf }) =>
        deadLettered > 0
          ? html`<a class="n dead" href="${deadLettersPath(deadLettersOf)}"
              >${count(deadLettered)}<span class="vh"> dead letters ${of}</span></a
            >`
          : '0',
    },
  };
}

function due(seconds: number): Html | string {
  return isLate(seconds) ? html`<span class="tag late">${CLOCK_ICON}${age(seconds)}</span>` : age(seconds);
}

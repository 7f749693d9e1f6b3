import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { silenceWords } from '../incidents/outage.ts';
import { mayReplay, replayLink } from '../kit/actions.ts';
import {
  countColumn,
  counted,
  inBrowser,
  inConsole,
  inTerminal,
  phraseOf,
  say,
  styled,
  toMinute,
} from '../kit/document.ts';
import type { List, ListColumn, Part, Phrase, Style } from '../kit/document.ts';
import { CLOCK_ICON, HALT_ICON, PAUSE_ICON, SILENT_ICON } from '../kit/icons.ts';
import { age, ago, until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLettersPath, topicPath, withParameters } from '../kit/links.ts';
import { NO_NAMES, operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { absent, ACTIONS, table } from '../kit/table.ts';
import type { Column } from '../kit/table.ts';
import { quantity, quantityOfLanes } from '../kit/words.ts';
import { ORDERS, isLate, searchWords, subscribersToShow } from './attention.ts';
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
  const columns = [nameColumn(now), ...countColumns(now)].map(inBrowser);
  return table({
    name,
    caption: `${name}: events by state, and deliveries of subscribers in trouble`,
    columns: [
      ...columns.map((column) => sortable(column, sort, context.url)),
      {
        label: 'Last 24 h',
        heading: LAST_DAY,
        look: ({ one }) => one !== null && 'muted small',
        span: ({ one }) => (one === null ? 1 : 2),
        cell: ({ topic, one }) =>
          one === null ? spark(topic.topic, topic.hours) : stateOfSubscriber(one, now, context.names),
      },
      { ...ACTIONS, cell: ({ topic }) => topicActions(topic, context) },
    ],
    groups: topics.map((topic) => ({
      words: searchWords(topic),
      rows: rowsOf(topic, subscribersToShow(topic)),
    })),
    rowLook: ({ one }) => (one === null ? 'r' : 'r sub'),
  });
}

/** Lists the same for a terminal. @param subscribersOf those below a topic. */
export function topicList(
  topics: readonly TopicOverview[],
  subscribersOf: (topic: TopicOverview) => readonly SubscriberOverview[],
  now: string,
): List<TopicRow> {
  return {
    name: 'Topics',
    columns: [
      nameColumn(now),
      ...countColumns(now),
      { terminal: { isFlexible: true, leftOut: 'late' }, cell: (row) => noteOf(row, now) },
    ],
    rows: topics.flatMap((topic) => rowsOf(topic, subscribersOf(topic))),
  };
}

const LAST_DAY = html`Last 24 h<span class="key"><i></i>delivered</span
  ><span class="key"><i class="d"></i>dead-lettered</span>`;

function sortable(column: Column<TopicRow>, current: Sort, url: URL): Column<TopicRow> {
  const by = ORDERS[column.label ?? ''];
  if (by === undefined) return column;
  const [arrow, direction] = by === 'topic' ? (['↑', 'ascending'] as const) : (['↓', 'descending'] as const);
  const isCurrent = by === current;
  const heading = html`<a href="${withParameters(url, { sort: by })}"
    >${column.label}${isCurrent && html`<span aria-hidden="true"> ${arrow}</span>`}</a
  >`;
  return { ...column, heading, ...(isCurrent && { sorted: direction }) };
}

function rowsOf(topic: TopicOverview, subscribers: readonly SubscriberOverview[]): readonly TopicRow[] {
  const name = topic.topic;
  return [
    { topic, one: null, counts: topic, of: `on ${name}`, deadLettersOf: { topic: name } },
    ...subscribers.map((one) => ({
      topic,
      one,
      counts: one,
      of: `of ${one.subscriber} on ${name}`,
      deadLettersOf: { topic: name, subscriber: one.subscriber },
    })),
  ];
}

function topicActions({ topic, deadLettered, inCatalog }: TopicOverview, { operator }: PageContext): Html {
  return html`<div class="acts">
    ${deadLettered > 0 && inCatalog && mayReplay(operator) && replayLink(topic, { topic, since: ALL_TIME })}
  </div>`;
}

function stateOfSubscriber(one: SubscriberOverview, now: string, names: OperatorNames): Html {
  const { lastDeliveredAt } = one;
  const last = lastDeliveredAt === null ? 'never delivered' : `last delivered ${ago(lastDeliveredAt, now)}`;
  return html`${last}${whyLines(one, now, names)}`;
}

function nameColumn(now: string): ListColumn<TopicRow> {
  return {
    label: 'Topic',
    isRowHeader: true,
    terminal: { title: 'topic, subscriber', isCut: true },
    cell: ({ topic, one }) => (one === null ? topicPhrase(topic, now) : subscriberOf(one, topic)),
  };
}

function topicPhrase(topic: TopicOverview, now: string): Phrase {
  const subscribers = quantity(topic.subscribers.length, 'subscriber');
  const held = heldBack(topic, now);
  return {
    html: html`<a class="t mono" href="${topicPath(topic.topic)}">${topic.topic}</a
      ><span class="s ${topic.inCatalog && 'nowrap'}"
        >${topic.inCatalog ? `${topic.producer} → ` : [NOT_IN_CATALOG.html, ' ']}${subscribers}</span
      >
      ${held && html`<span class="s fail-t">${held.html}</span>`}`,
    text: topic.topic,
  };
}

function subscriberOf(one: SubscriberOverview, topic: TopicOverview): Phrase {
  const { subscriber } = one;
  return {
    html: html`${subscriberLink(subscriber, topic.topic)} ${subscriberTags(one, topic).html}`,
    text: `  ${subscriber}`,
  };
}

/** Says in a terminal why deliveries wait. */
function noteOf({ topic, one }: TopicRow, now: string): Part {
  if (one === null) return topic.inCatalog ? heldBack(topic, now) : NOT_IN_CATALOG;
  return pauseWords(one, now, NO_NAMES) ?? outageWords(one, now) ?? subscriberTags(one, topic);
}

function heldBack({ heldBackSince, heldBackBy }: TopicOverview, now: string): Phrase | null {
  if (heldBackSince === null) return null;
  const by =
    heldBackBy === null
      ? 'an open transaction of its producer'
      : {
          html: 'a prepared transaction of its producer',
          text: `the prepared transaction ${heldBackBy.gid} of ${heldBackBy.owner}`,
        };
  return styled('yellow', say`held back since ${toMinute(heldBackSince, now)} by ${by}`);
}

/** Says why a subscriber's deliveries wait, such as `paused`, unless its topic's row already does. */
export function subscriberTags(
  { inCatalog, neededVersion, attached, paused, outage, haltedLanes }: SubscriberOverview,
  topic: TopicOverview,
): Phrase {
  const tags = [
    !inCatalog && topic.inCatalog && NOT_IN_CATALOG,
    inCatalog && !attached && NOT_ATTACHED,
    neededVersion !== null &&
      tag('yellow', `waits for a release that reads version ${neededVersion}`, 'late'),
    paused && inConsole(html`<span class="tag late">${PAUSE_ICON}paused</span>`),
    outage !== null && inConsole(html`<span class="tag halted">${SILENT_ICON}does not answer</span>`),
    haltedLanes > 0 &&
      tag(
        'red',
        say`${inConsole(HALT_ICON)}${quantityOfLanes(haltedLanes)} halted${inTerminal(' by a dead letter')}`,
        'halted',
      ),
  ].filter((one) => one !== false);
  return {
    ...tags.at(-1),
    html: tags.map((one) => [one.html, ' ']),
    text: tags.flatMap(({ text }) => text || []).join(', '),
  };
}

function tag(style: Style, words: Part, look = ''): Phrase {
  const { html: shown, text } = phraseOf(words);
  return { html: html`<span class="${`tag ${look}`.trim()}">${shown}</span>`, text, style };
}

const NOT_IN_CATALOG = tag('yellow', 'not in this release’s catalog');

const NOT_ATTACHED: Phrase = {
  html: html`<span
    class="tag"
    title="This deployment has no handler and no endpoint for it. Its deliveries wait."
    >not attached</span
  >`,
  text: 'not attached',
  style: 'dim',
};

/** Says who paused the subscriber, when and why. */
function pauseWords({ pause }: SubscriberOverview, now: string, names: OperatorNames): Phrase | null {
  if (pause === null) return null;
  const { topic, pausedBy, pausedAt, reason } = pause;
  const scope = topic === null && ', all its topics';
  return styled(
    'yellow',
    say`paused by ${operatorText(pausedBy, names)}, ${toMinute(pausedAt, now)}${scope}: ${reason}`,
  );
}

/** Says since when the subscriber does not answer, and when the next delivery probes. */
function outageWords({ outage }: SubscriberOverview, now: string): Phrase | null {
  if (outage === null) return null;
  const { kind, since, nextProbeAt } = outage;
  return styled(
    'red',
    say`${silenceWords(kind)} since ${toMinute(since, now)}; next probe ${until(nextProbeAt, now)}`,
  );
}

/** Says of whose pause or outage a subscriber's deliveries wait for the end. */
export function whyLines(one: SubscriberOverview, now: string, names: OperatorNames): Child {
  return [pauseWords(one, now, names), outageWords(one, now)].map(
    (why) => why && html`<span class="s why">${why.html}</span>`,
  );
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
export function countColumns(now: string): readonly ListColumn<CountedRow>[] {
  return [
    countColumn('Pending', ({ counts }) => counts.pending),
    {
      label: 'Oldest due',
      tone: 'num',
      look: ({ counts }) => counts.oldestDueAgeSeconds === null && 'zero',
      terminal: { leftOut: 'late' },
      cell: ({ counts: { oldestDueAgeSeconds: seconds } }) =>
        seconds === null ? inConsole(absent('none due')) : due(seconds),
    },
    {
      ...countColumn<CountedRow>('Failing', ({ counts }) => counts.failing),
      cell: ({ counts: { failing }, of, deadLettersOf: { topic } }) =>
        linked(counted(failing, 'yellow'), 'fail', `${topicPath(topic)}#held`, `failing ${of}`),
    },
    {
      label: 'Next retry',
      tone: 'num',
      look: ({ counts }) => counts.nextRetryAt === null && 'zero',
      terminal: { leftOut: 'late' },
      cell: ({ counts: { nextRetryAt } }) =>
        nextRetryAt === null ? inConsole(absent('no retry planned')) : until(nextRetryAt, now),
    },
    {
      ...countColumn<CountedRow>('Dead letters', ({ counts }) => counts.deadLettered, { title: 'dead' }),
      cell: ({ counts: { deadLettered }, of, deadLettersOf }) =>
        linked(counted(deadLettered, 'red'), 'dead', deadLettersPath(deadLettersOf), `dead letters ${of}`),
    },
  ];
}

/** Links a number that is not 0 to what it counts. @param of for screen readers. */
function linked(number: Phrase, look: string, path: string, of: string): Phrase {
  if (number.text === '0') return number;
  return {
    ...number,
    html: html`<a class="n ${look}" href="${path}">${number.html}<span class="vh"> ${of}</span></a>`,
  };
}

function due(seconds: number): Phrase | string {
  const words = age(seconds);
  if (!isLate(seconds)) return words;
  return { html: html`<span class="tag late">${CLOCK_ICON}${words}</span>`, text: words };
}

import { html } from '../../platform/markup.ts';
import {
  absent,
  below,
  countColumn,
  counted,
  muted,
  say,
  statePhrase,
  when,
  whenAndAgo,
} from '../kit/document.ts';
import type { ListColumn, OperatorNames, Phrase } from '../kit/document.ts';
import { deadLettersPath, subscriberPath, topicPath } from '../kit/links.ts';
import { pauseClause, silenceWords } from '../kit/pauses.ts';
import type { Pause } from '../kit/pauses.ts';
import { CLOCK_ICON } from '../kit/sections.ts';
import type { Counts } from '../kit/shapes.ts';
import { age, quantityOfLanes, until } from '../kit/words.ts';
import type { SubscriberOverview, SubscriberState, TopicOverview } from './read.ts';

// How a subscription is, or all those of a subscriber, or a topic: the same state, reasons and columns on every page.

/** What a list says of a subscription, of a subscriber on all its topics, or of a topic. */
export type Stands = Counts &
  Pick<SubscriberOverview, 'inCatalog'> &
  Partial<SubscriberOverview & Pick<TopicOverview, 'topic' | 'heldBackSince'>> & {
    /** Of a subscriber; `pause` is that of a subscription. */
    readonly pauses?: readonly Pause[];
    readonly limited?: { readonly limit: string; readonly until: string | null } | null;
    readonly lastAnswer?: string | null;
  };

/** Its state in a word: who was never delivered anything is ready. */
export function stateWord({
  state,
  lastDeliveredAt,
}: Pick<Stands, 'lastDeliveredAt'> & { state: SubscriberState }) {
  return state === 'delivering' && lastDeliveredAt === null ? 'ready' : state;
}

/** Says why deliveries wait: whose pause it is, since when it is silent, which limit it is at, which release they need. */
function reasonsOf(one: Stands, now: string, names: OperatorNames): readonly Phrase[] {
  const {
    inCatalog,
    heldBackSince,
    pause,
    pauses = [],
    outage,
    limited,
    haltedLanes = 0,
    neededVersion,
  } = one;
  return [
    !inCatalog && say`not in this release’s catalog`,
    heldBackSince && say`held back since ${when(heldBackSince, now)} by an open transaction of its producer`,
    neededVersion && say`waits for a release that reads version ${neededVersion}`,
    ...[...pauses, ...(pause ? [pause] : [])].map(
      (made) => say`paused for ${made.topic ?? 'all topics'} ${pauseClause(made, now, names)}`,
    ),
    outage &&
      say`${silenceWords(outage.kind)} since ${when(outage.since, now)}; next probe ${until(outage.nextProbeAt, now)}`,
    limited && limitPhrase(limited, now),
    haltedLanes > 0 && say`${quantityOfLanes(haltedLanes)} halted by a dead letter`,
  ].flatMap((reason) => reason || []);
}

/** Until when a limit holds deliveries back. */
export function limitPhrase({ limit, until: through }: NonNullable<Stands['limited']>, now: string): Phrase {
  return through === null
    ? say`rate_limited: ${limit}, and so many are being delivered`
    : say`rate_limited until ${when(through, now)}: at ${limit} all that waits is through ${until(through, now)}`;
}

/** A delivery that has been due for longer is late: the relay looks for work every few seconds. */
const LATE_SECONDS = 60;

export const isLate = (seconds: number | null | undefined): boolean => (seconds ?? 0) > LATE_SECONDS;

/** The columns that lists of subscriptions, subscribers and topics choose from. */
export function standingColumns(now: string, names: OperatorNames) {
  return {
    state: {
      label: 'State',
      look: 'wrap',
      cell: (one) => {
        const { state } = one;
        const phrase = state ? statePhrase(stateWord({ ...one, state })) : say``;
        const reasons = reasonsOf(one, now, names).map((reason) => below(reason, ', '));
        return { ...phrase, ...reasons.reduce((said, reason) => say`${said}${reason}`, phrase) };
      },
    },
    pending: countColumn('Pending', ({ pending }) => pending),
    oldestDue: {
      label: 'Oldest due',
      tone: 'num',
      look: ({ oldestDueAgeSeconds: seconds }) => seconds == null && 'zero',
      cell: ({ oldestDueAgeSeconds: seconds }) => (seconds == null ? absent('none due') : due(seconds)),
    },
    failing: {
      ...countColumn('Failing', ({ failing }) => failing),
      cell: (one) => {
        const path = one.topic === undefined ? subscriberPath(one.subscriber!) : topicPath(one.topic);
        return linked(counted(one.failing, 'yellow'), 'fail', `${path}#held`, `failing ${ofWords(one)}`);
      },
    },
    deadLetters: {
      ...countColumn('Dead letters', ({ deadLettered }) => deadLettered),
      cell: deadLetterPhrase,
    },
    lastDelivered: {
      label: 'Last delivered',
      look: 'nowrap',
      cell: ({ lastDeliveredAt: at }) => orNever(at, now),
    },
    lastFailed: {
      label: 'Last failed',
      look: 'wrap',
      cell: ({ lastFailedAt: at, lastAnswer }) => say`${orNever(at, now)}${below(lastAnswer, ', ')}`,
    },
  } as const satisfies Readonly<Record<string, ListColumn<Stands>>>;
}

/** The number of dead letters, linked to their list. */
export function deadLetterPhrase(one: Pick<Stands, 'topic' | 'subscriber' | 'deadLettered'>): Phrase {
  const { topic, subscriber, deadLettered } = one;
  const path = deadLettersPath({ topic, subscriber });
  return linked(counted(deadLettered, 'red'), 'dead', path, `dead letters ${ofWords(one)}`);
}

export function orNever(at: string | null | undefined, now: string): Phrase {
  return at == null ? muted('never') : whenAndAgo(at, now);
}

function due(seconds: number): Phrase | string {
  const words = age(seconds);
  if (!isLate(seconds)) return words;
  return { html: html`<span class="tag late">${CLOCK_ICON}${words}</span>`, text: words };
}

/** Whose they are, for screen readers that list links. */
function ofWords({ topic, subscriber }: Pick<Stands, 'topic' | 'subscriber'>): string {
  return [subscriber !== undefined && `of ${subscriber}`, topic !== undefined && `on ${topic}`]
    .filter(Boolean)
    .join(' ');
}

/** Links a number that is not 0 to what it counts. */
function linked(number: Phrase, look: string, path: string, of: string): Phrase {
  if (number.text === '0') return number;
  return {
    ...number,
    html: html`<a class="n ${look}" href="${path}">${number.html}<span class="vh"> ${of}</span></a>`,
  };
}

/** Whether a topic has something to deliver, or an operator should look at it. */
export function isBusy(topic: TopicOverview): boolean {
  return (
    topic.pending + topic.failing + topic.deadLettered > 0 ||
    isLate(topic.oldestDueAgeSeconds) ||
    topic.heldBackSince !== null ||
    topic.subscribers.some(isTroubled)
  );
}

/** Whether a subscription fails, is late, or has deliveries that wait for an operator, an answer, a handler or a release. */
export function isTroubled(one: SubscriberOverview): boolean {
  const { deadLettered, failing, oldestDueAgeSeconds, paused, outage, pending, attached } = one;
  const waits = pending > 0 && (paused || outage !== null || !attached);
  return deadLettered + failing > 0 || isLate(oldestDueAgeSeconds) || waits || isUnknownToRelease(one);
}

/** Whether this release’s catalog lacks the subscription, or the payload version of its next event. */
export function isUnknownToRelease({ inCatalog, neededVersion }: SubscriberOverview): boolean {
  return !inCatalog || neededVersion !== null;
}

/** Sorts the topics by what fails now, then by lateness, then by dead letters. */
export function worstFirst(topics: readonly TopicOverview[]): readonly TopicOverview[] {
  return topics.toSorted(
    (one, other) =>
      other.failing - one.failing ||
      (other.oldestDueAgeSeconds ?? 0) - (one.oldestDueAgeSeconds ?? 0) ||
      other.deadLettered - one.deadLettered,
  );
}

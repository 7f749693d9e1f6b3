import { html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import { errorPhrase, link, when, whenAndAgo } from '../kit/document.ts';
import type { List, ListColumn, Phrase } from '../kit/document.ts';
import { timeAndAgo, until } from '../kit/instants.ts';
import { deadLetterPath, eventPath, topicPath } from '../kit/links.ts';
import type { LastError } from '../kit/shapes.ts';
import { attemptsOf, attemptsWords, count, shortId } from '../kit/words.ts';
import type { IncidentView } from './detail.ts';

type Lane = IncidentView['lanes'][number];
type Halt = IncidentView['halts'][number];
type Letter = IncidentView['deadLetters'][number];
type Topic = IncidentView['topics'][number];

/** Lanes whose first delivery fails. */
export function laneList({ lanes, paused, generatedAt: now }: IncidentView): List<Lane> {
  return {
    name: 'Blocked lanes',
    caption: 'Blocked lanes, the next attempt first',
    columns: [
      LANE,
      { label: 'Held by', terminal: { title: 'delivery', isBelow: true }, cell: heldBy },
      {
        label: 'Attempts',
        tone: 'num',
        only: 'terminal',
        terminal: { leftOut: 'late' },
        cell: ({ attempts, maxAttempts }) => attemptsOf(attempts, maxAttempts),
      },
      { ...LAST_ERROR, only: 'console' },
      WAITING,
      {
        label: 'Next attempt',
        look: 'nowrap',
        cell: ({ nextAttemptAt }) => (paused ? 'after the pause' : until(nextAttemptAt, now)),
      },
    ],
    rows: lanes,
  };
}

function heldBy({ deliveryId, eventId, subject, attempts, maxAttempts }: Lane): Phrase {
  return {
    html: html`<a class="mono nowrap" href="${eventPath(eventId)}">${shortId(eventId)}</a>
      <span class="s">${subject !== null && `${subject}, `}${attemptsWords(attempts, maxAttempts)}</span>`,
    text: deliveryId,
  };
}

/** Dead letters that halt lanes. */
export function haltList({ halts, generatedAt: now }: IncidentView): List<Halt> {
  return {
    name: 'Halted lanes',
    caption: 'Lanes that a dead letter halts, the longest first',
    columns: [
      LANE,
      WAITING,
      {
        label: 'Halted by',
        terminal: { title: 'dead letter', isBelow: true },
        cell: (halt) => haltedBy(halt, now),
      },
      { label: 'Since', only: 'terminal', cell: ({ since }) => when(since, now) },
      { ...LAST_ERROR, only: 'console' },
    ],
    rows: halts,
  };
}

/** The dead letter that halts a lane. @param place on the page of its event. */
export function haltedBy(
  { deliveryId, subject, eventId, since }: Omit<Halt, 'waiting'>,
  now: string,
  place = '',
): Phrase {
  return {
    html: html`<a class="mono" href="${deadLetterPath(deliveryId)}" title="${deliveryId}"
        >dead letter ${shortId(eventId)}${deliveryId.slice(eventId.length)}</a
      >
      <span class="s"
        >${subject !== null && `${subject}, `}event
        <a class="mono" href="${eventPath(eventId)}${place}">${shortId(eventId)}</a></span
      >
      <span class="s">since ${timeAndAgo(since, now)}</span>`,
    text: deliveryId,
  };
}

/** Topics whose deliveries wait for a subscriber that does not answer. */
export function topicList({ topics }: IncidentView): List<Topic> {
  return {
    name: 'What waits',
    caption: 'Deliveries that wait until the subscriber answers, by topic',
    columns: [
      { label: 'Topic', isRowHeader: true, cell: ({ topic }) => link(topicPath(topic), topic) },
      { label: 'Waiting', tone: 'num', cell: ({ waiting }) => count(waiting) },
    ],
    rows: topics,
  };
}

export function letterList({ deadLetters, generatedAt: now }: IncidentView): List<Letter> {
  return {
    name: 'Dead letters',
    caption: 'Dead letters of this incident, newest first',
    columns: [
      {
        label: 'Delivery',
        isRowHeader: true,
        terminal: { isBelow: true },
        cell: ({ deliveryId }) => link(deadLetterPath(deliveryId), deliveryId),
      },
      { label: 'Event', terminal: { title: 'about', isFlexible: true }, cell: eventOf },
      LAST_ERROR,
      {
        label: 'Dead-lettered',
        look: 'nowrap',
        terminal: { title: 'dead since' },
        cell: ({ deadLetteredAt }) => whenAndAgo(deadLetteredAt, now),
      },
    ],
    rows: deadLetters,
  };
}

function eventOf({ eventId, subject }: Letter): Phrase {
  return {
    html: html`<a class="mono nowrap" href="${eventPath(eventId)}">${shortId(eventId)}</a>
      <span class="s">${subject}</span>`,
    text: subject ?? '',
  };
}

const LANE: ListColumn<{ readonly orderingKey: string }> = {
  label: 'Lane',
  isRowHeader: true,
  look: ({ orderingKey }) => (orderingKey === '' ? 'wrap' : 'wrap mono'),
  terminal: { isFlexible: true },
  cell: ({ orderingKey }) => visibleName(orderingKey) || 'whole topic',
};

/** Deliveries that are counted in a lane. */
const COUNTED = 100;

const WAITING: ListColumn<{ readonly waiting: number }> = {
  label: 'Waiting',
  tone: 'num',
  cell: ({ waiting }) => (waiting >= COUNTED ? `over ${COUNTED}` : count(waiting)),
};

const LAST_ERROR: ListColumn<{ readonly lastError: LastError | null }> = {
  label: 'Last error',
  look: 'message',
  terminal: { title: 'error', isFlexible: true },
  cell: ({ lastError }) => lastError && errorPhrase(lastError),
};

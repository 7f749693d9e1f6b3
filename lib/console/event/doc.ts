import { html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import type { DeadLetter } from './delivery.ts';
import { haltWords } from '../deliveries/halts.ts';
import { historyOf } from '../deliveries/history.ts';
import { dismissLetterForm, firstOfLaneForms, settleLink } from '../kit/actions.ts';
import { byReplay, does, leads, replays } from '../kit/doc.ts';
import type { Act, Block, Doc, History } from '../kit/doc.ts';
import {
  inConsole,
  inTerminal,
  link,
  mono,
  muted,
  say,
  statePhrase,
  subscriberPhrase,
  toMinute,
  when,
  whenAndAgo,
} from '../kit/document.ts';
import type { Facts, Part, Phrase } from '../kit/document.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, HALT_ICON, WARNING_ICON } from '../kit/icons.ts';
import {
  deadLetterPath,
  deadLettersPath,
  eventPath,
  eventsPath,
  eventsWithPath,
  topicPath,
} from '../kit/links.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { pauseAlerts } from '../kit/pause-alerts.ts';
import { attemptsWords, quantity, shortId } from '../kit/words.ts';
import { familyList, familyNote } from './family-list.ts';
import { drawn, reasonWords, verdictOf } from './sentences.ts';

import type { EventDelivery, EventView } from './view.ts';

/** Says where an event is: the verdict, its deliveries, what caused it and what it caused, and its payload. */
export function eventDoc(view: EventView, names: OperatorNames): Doc {
  const { event, deliveries, verdict, generatedAt: at } = view;
  const { eventId, topic, subject, state, createdAt } = event;
  const [tone, icon] = TONES[state];
  // A pending event that is merely due is well; one that is held up by something else is not.
  const isHeldUp = deliveries.some(({ why }) => why !== null && !['due', 'leased'].includes(why.code));
  const words = inConsole(html`<b>${drawn(verdictOf(deliveries), at, names)}</b>`);
  return {
    // A terminal begins with the verdict, which a browser has in an alert.
    title: { ...mono(topic), text: verdict },
    tab: topic,
    lead: say`${subject !== null && `${subject}, `}${statePhrase(state)}, recorded ${when(createdAt, at)}`,
    section: 'events',
    at,
    back: [eventsPath(), 'Events'],
    alerts: [{ tone: tone === 'ok' && isHeldUp ? 'fail' : tone, icon, words }],
    blocks: [
      pausesOf(deliveries, topic, at),
      {
        id: 'deliveries',
        title: 'Deliveries',
        hint: inConsole('one for each subscriber'),
        histories: troubleFirst(deliveries).map((one) => deliveryHistory(one, { eventId, topic, at, names })),
        none: 'It was emitted to no subscriber',
      },
      {
        id: 'family',
        title: 'Causes and effects',
        hint: familyNote(view),
        list: familyList(view),
      },
      {
        id: 'event',
        title: 'Event',
        payload: { ...event, generatedAt: at, path: eventPath(eventId) },
        facts: eventFacts(event, at),
      },
    ],
  };
}

const TONES = {
  delivered: ['ok', CHECK_ICON],
  pending: ['ok', CLOCK_ICON],
  failing: ['fail', WARNING_ICON],
  dead_lettered: ['dead', DEAD_ICON],
} as const;

/** Says the same of one delivery: its history, what can be done, and its payload. */
export function deliveryDoc(view: DeadLetter, names: OperatorNames): Doc {
  const { deliveryId, topic, subscriber, subject, eventId, event, siblings, generatedAt: at } = view;
  const { halts, replays: replayed } = view;
  return {
    title: say`${mono(topic)} to ${subscriberPhrase(subscriber, topic)}`,
    lead: say`${subject !== null && `${subject}, `}${stateOf(view, at)}`,
    section: 'dead-letters',
    at,
    back: [deadLettersPath(), 'Dead letters'],
    alerts: [
      halts && {
        tone: 'dead',
        icon: HALT_ICON,
        words: say`This dead letter ${haltWords(halts)}. Since ${toMinute(halts.since, at)} nothing behind it is delivered.`,
      },
    ],
    blocks: [
      pausesOf([view], topic, at),
      {
        id: 'delivery',
        title: 'Attempts',
        histories: [deliveryHistory(view, { eventId, topic, at, names, isAlone: true })],
      },
      {
        id: 'event',
        title: 'Event',
        payload: { ...view, version: event.version, path: deadLetterPath(deliveryId) },
        facts: [
          ...eventFacts({ ...view, ...event }, at),
          ['Delivery id', inConsole(mono(deliveryId).html)],
          ['Replayed', replayed === 0 ? 'never' : quantity(replayed, 'time')],
          ['Other subscribers', siblings.length === 0 ? 'none' : joined(siblings.map(siblingPart))],
        ],
      },
    ],
  };
}

function siblingPart({ deliveryId, subscriber, state }: DeadLetter['siblings'][number]): Part {
  return say`${link(deadLetterPath(deliveryId), subscriber)} ${statePhrase(state)}`;
}

function joined(parts: readonly Part[]): Part {
  return parts.reduce((before, part) => say`${before}, ${part}`);
}

/** A pause holds what is not delivered yet. A delivery that waits for its end says so itself. */
function pausesOf(
  deliveries: readonly Pick<EventDelivery, 'subscriber' | 'state' | 'why'>[],
  topic: string,
  now: string,
): Block {
  const held = deliveries.filter(({ state, why }) => state !== 'delivered' && why?.code !== 'paused');
  return {
    id: 'pauses',
    drawn: (context) => held.map(({ subscriber }) => pauseAlerts({ subscriber, topic }, now, context)),
  };
}

/** What needs an operator comes before what is delivered. */
function troubleFirst(deliveries: readonly EventDelivery[]): readonly EventDelivery[] {
  const rank = ({ state }: EventDelivery) =>
    ['dead_lettered', 'failing', 'pending', 'delivered'].indexOf(state);
  return deliveries.toSorted((one, other) => rank(one) - rank(other));
}

interface Around {
  readonly eventId: string;
  readonly topic: string;
  readonly at: string;
  readonly names: OperatorNames;
  /** Whether it is on its own page. */
  readonly isAlone?: boolean;
}

/** Says of one delivery where it is, why it waits, what was tried, and what can be done. */
function deliveryHistory(delivery: EventDelivery, around: Around): History {
  const { deliveryId, subscriber, why, halts } = delivery;
  const { topic, at, names } = around;
  return {
    id: `to-${subscriber}`,
    title: say`${subscriberPhrase(subscriber, topic)} ${stateOf(delivery, at)}`,
    words: [
      why && { html: drawn(reasonWords(why), at, names), text: why.text },
      ...(why?.also ?? []).map(({ text }) => muted(`Also: ${text}`)),
      halts && `It ${haltWords(halts)}.`,
      deliveryId !== null && deliveryWords({ ...delivery, deliveryId }, around),
    ],
    moments: historyOf(delivery, at, names),
    acts: deliveryId === null ? [] : actsOn({ ...delivery, deliveryId }, topic),
  };
}

/** Names a delivery, with how often it has failed. */
function deliveryWords(
  { deliveryId, subscriber, state, failures, maxAttempts }: EventDelivery & { readonly deliveryId: string },
  { eventId, isAlone }: Around,
): Phrase {
  const short = `${shortId(eventId)}.${subscriber}`;
  const id = { ...(isAlone ? mono(short) : link(deadLetterPath(deliveryId), short)), text: deliveryId };
  const tried = state === 'failing' && `, ${attemptsWords(failures, maxAttempts)}`;
  const words = say`delivery ${id}${tried}`;
  return { ...words, html: html`<span class="small muted">${words.html}</span>` };
}

/** Its state, and since when if it has ended. */
function stateOf(
  {
    state,
    deliveredAt,
    deadLetteredAt,
    dismissedAt,
  }: Pick<EventDelivery, 'state' | 'deliveredAt' | 'deadLetteredAt' | 'dismissedAt'>,
  now: string,
): Part {
  const at = dismissedAt ?? deadLetteredAt ?? deliveredAt;
  const ended = at === null ? null : say` at ${when(at, now)}`;
  return say`${statePhrase(state)}${dismissedAt !== null && ', dismissed'}${ended && { ...ended, html: html`<span class="at">${ended.html}</span>` }}`;
}

function actsOn(delivery: EventDelivery & { readonly deliveryId: string }, topic: string): History['acts'] {
  const { deliveryId, subscriber, state, why, deadLetteredAt, halts } = delivery;
  const of = `${topic} to ${subscriber}`;
  if (why === null) {
    const isDead = deadLetteredAt !== null;
    const include = state === 'delivered' ? 'all' : null;
    return [
      replays(
        { topic, subscriber },
        of,
        { deliveryIds: deliveryId, include },
        include === null ? ['To deliver it again', `replay --delivery ${deliveryId}`] : undefined,
      ),
      isDead &&
        byReplay(
          (context) => dismissLetterForm(deliveryId, of, halts !== null, context),
          [
            halts === null ? 'To give it up' : 'To let its lane go on without it',
            `dismiss ${deliveryId} --reason <text>`,
          ],
        ),
    ];
  }
  const codes = new Set([why.code, ...why.also.map(({ code }) => code)]);
  const { behind } = why;
  return [
    codes.has('backoff')
      ? byReplay(
          (context) => firstOfLaneForms({ ...delivery, topic }, of, context),
          ['When it is fixed', `retry ${deliveryId} --wait`],
        )
      : codes.has('not_in_catalog') && byReplay(() => settleLink(topic, subscriber)),
    why.code === 'paused' &&
      does('resume', { subscriber }, { of: subscriber, hidden: { topic: why.pausedTopic } }, [
        'To resume it',
        `resume ${subscriber}${why.pausedTopic === null ? '' : ` --topic ${why.pausedTopic}`}`,
      ]),
    why.code === 'outage' &&
      does('probe', { subscriber }, { of: subscriber }, ['To probe now', `retry ${subscriber} --wait`]),
    behind && firstInLine(behind, subscriber, of),
  ];
}

function firstInLine(
  { code, deliveryId, eventId }: NonNullable<NonNullable<EventDelivery['why']>['behind']>,
  subscriber: string,
  of: string,
): Act {
  if (code === 'halted')
    return leads(deadLetterPath(deliveryId), 'Open the dead letter', `of ${of}`, [
      'To let it go on',
      `replay --delivery ${deliveryId}, or npx postbud dismiss ${deliveryId} --reason <text>`,
    ]);
  return leads(
    `${eventPath(eventId)}#to-${subscriber}`,
    'Open the first in line',
    `of ${of}`,
    code === 'backoff'
      ? ['When it is fixed', `retry ${deliveryId} --wait`]
      : ['The first in line', `why ${eventId}`],
  );
}

type Known = Pick<
  EventView['event'],
  | 'eventId'
  | 'topic'
  | 'subject'
  | 'producer'
  | 'version'
  | 'createdAt'
  | 'orderingKey'
  | 'correlationId'
  | 'causationId'
  | 'traceparent'
> & { readonly dedupeKey?: string | null };

/** What is known of an event. */
function eventFacts(event: Known, now: string): Facts {
  const { eventId, topic, orderingKey, dedupeKey = null, correlationId, causationId, traceparent } = event;
  return [
    ['Event id', link(eventPath(eventId), eventId)],
    ['Topic', link(topicPath(topic), topic)],
    ['About', inTerminal(event.subject ?? '')],
    ['Producer', mono(event.producer)],
    ['Version', inTerminal(String(event.version))],
    ['Recorded', whenAndAgo(event.createdAt, now)],
    orderingKey !== '' && ['Ordering key', link(eventsWithPath(orderingKey), visibleName(orderingKey))],
    dedupeKey !== null && ['Dedupe key', mono(visibleName(dedupeKey))],
    correlationId !== null && ['Correlation id', link(eventsWithPath(correlationId), correlationId)],
    causationId !== null && ['Caused by', link(eventPath(causationId), causationId)],
    traceparent !== null && ['Trace', mono(traceparent)],
  ];
}

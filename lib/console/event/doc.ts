import { html } from '../../platform/markup.ts';
import type { Child } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import { HALTS } from '../deliveries/attempts.ts';
import { historyOf } from '../deliveries/history.ts';
import { firstOfLaneForms, retireLink } from '../kit/actions.ts';
import { byReplay, dismisses, does, leads, replays } from '../kit/doc.ts';
import type { Act, Doc, History } from '../kit/doc.ts';
import {
  below,
  inConsole,
  inTerminal,
  link,
  mono,
  muted,
  say,
  statePhrase,
  subscriberPhrase,
  when,
  whenAndAgo,
} from '../kit/document.ts';
import type { Facts, List, OperatorNames, Part, Phrase } from '../kit/document.ts';
import { attemptsWords, shortId, time, timeText } from '../kit/words.ts';
import {
  deadLetterPath,
  deadLettersPath,
  eventPath,
  eventsPath,
  eventsWithPath,
  topicPath,
} from '../kit/links.ts';
import { MOST_EFFECTS } from './family.ts';
import type { EventDelivery, EventView, InFront, RelatedEvent } from './view.ts';

/** Says where an event is: the verdict, its deliveries, what caused it and what it caused, and its payload. */
export function eventDoc(view: EventView, names: OperatorNames): Doc {
  const { event, deliveries, verdict, generatedAt: at } = view;
  const { eventId, topic, subject, state, createdAt, erasedAt } = event;
  const [worst] = troubleFirst(deliveries.filter(({ dismissedAt }) => dismissedAt === null));
  const tone = TONES[worst?.state ?? 'delivered'];
  // A pending event that is merely due is well; one that is held up by something else is not.
  const isHeldUp = deliveries.some(({ why }) => why !== null && !['due', 'leased'].includes(why.code));
  const words = inConsole(html`<b>${sentenceWords(verdict, deliveries, at).html}</b>`);
  return {
    // A terminal begins with the verdict, which a browser has in an alert.
    title: { ...mono(topic), text: verdict },
    tab: `Event of ${topic}`,
    lead: say`${subject !== null && `${subject}, `}${statePhrase(state)}, recorded ${when(createdAt, at)}${erasedAt !== null && say`. Its personal data was erased at ${when(erasedAt, at)}: nothing brings it back`}`,
    section: 'events',
    at,
    back: [eventsPath(), 'Events'],
    alerts: [{ tone: tone === 'ok' && isHeldUp ? 'fail' : tone, words }],
    blocks: [
      {
        id: 'deliveries',
        title: 'Deliveries',
        histories: troubleFirst(deliveries).map((one) => deliveryHistory(one, { eventId, topic, at, names })),
        none: 'It was emitted to no subscriber',
      },
      {
        id: 'family',
        title: 'Causes and effects',
        hint: familyNote(view),
        list: familyList(view),
      },
      { id: 'event', title: 'Event', facts: eventFacts(event, at) },
      { id: 'payload', payload: { ...event, generatedAt: at } },
    ],
  };
}

const TONES = {
  delivered: 'ok',
  pending: 'ok',
  failing: 'fail',
  dead_lettered: 'dead',
} as const;

/** Says the same of one delivery, whichever led to it: a dead letter or its lane. */
export function deliveryDoc(view: EventView, names: OperatorNames): Doc {
  return {
    ...eventDoc(view, names),
    tab: `Delivery of ${view.event.topic}`,
    section: 'dead-letters',
    back: [deadLettersPath(), 'Dead letters'],
  };
}

/** A sentence about deliveries. On a page its times are those of the browser's zone, and the event in front is a link. */
function sentenceWords(text: string, deliveries: readonly EventDelivery[], now: string): Phrase {
  const drawn = new Map<string, Child>();
  for (const { why, deliveredAt, deadLetteredAt } of deliveries) {
    const behind = why?.behind;
    if (behind) {
      const name = behind.subject ?? shortId(behind.eventId);
      drawn.set(name, link(eventPath(behind.eventId), name).html);
    }
    for (const at of [deliveredAt, deadLetteredAt, why?.since, why?.until])
      if (at) drawn.set(timeText(at, now), time(at, now));
  }
  const names = [...drawn.keys()].map((name) => name.replaceAll(/[^\w ]/g, String.raw`\$&`));
  const parts = names.length === 0 ? [text] : text.split(new RegExp(`(${names.join('|')})`));
  return { html: parts.map((part) => drawn.get(part) ?? part), text };
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
}

/** Says of one delivery where it is, why it waits, what was tried, and what can be done. */
function deliveryHistory(delivery: EventDelivery, around: Around): History {
  const { deliveryId, subscriber, why, isHalting } = delivery;
  const { topic, at, names } = around;
  return {
    id: `to-${subscriber}`,
    title: say`${subscriberPhrase(subscriber)} ${stateOf(delivery, at)}`,
    words: [
      why && sentenceWords(why.text, [delivery], at),
      isHalting && `It ${HALTS}.`,
      deliveryId !== null && deliveryWords({ ...delivery, deliveryId }, around),
    ],
    moments: historyOf(delivery, at, names),
    acts: deliveryId === null ? [] : actsOn({ ...delivery, deliveryId }, topic),
  };
}

/** Names a delivery, with how often it has failed. */
function deliveryWords(
  { deliveryId, subscriber, state, failures, maxAttempts }: EventDelivery & { readonly deliveryId: string },
  { eventId }: Around,
): Phrase {
  const short = `${shortId(eventId)}.${subscriber}`;
  const id = { ...link(deadLetterPath(deliveryId), short), text: deliveryId };
  const tried = state === 'failing' && `, ${attemptsWords(failures, maxAttempts)}`;
  const words = say`delivery ${id}${tried}`;
  return { ...words, html: html`<span class="small muted">${words.html}</span>` };
}

/** Its state, and since when if it has ended. */
function stateOf({ state, deliveredAt, deadLetteredAt, dismissedAt }: EventDelivery, now: string): Part {
  const at = dismissedAt ?? deadLetteredAt ?? deliveredAt;
  const ended = at === null ? null : say` at ${when(at, now)}`;
  return say`${statePhrase(state)}${dismissedAt !== null && ', dismissed'}${ended && { ...ended, html: html`<span class="at">${ended.html}</span>` }}`;
}

function actsOn(delivery: EventDelivery & { readonly deliveryId: string }, topic: string): History['acts'] {
  const { deliveryId, subscriber, state, why, deadLetteredAt, isHalting } = delivery;
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
        dismisses(deliveryId, of, {
          command: [
            isHalting ? 'To let its lane go on without it' : 'To dismiss it',
            `dismiss ${deliveryId} --reason <text>`,
          ],
        }),
    ];
  }
  const { behind } = why;
  return [
    why.code === 'backoff'
      ? byReplay(
          (context) => firstOfLaneForms({ ...delivery, topic }, of, context),
          ['When it is fixed', `retry ${deliveryId} --wait`],
        )
      : why.code === 'not_in_catalog' && byReplay(() => retireLink(subscriber, topic)),
    why.code === 'paused' &&
      does('resume', { subscriber }, { of: subscriber, hidden: { topic: why.pausedTopic } }, [
        'To resume it',
        `resume ${subscriber}${why.pausedTopic === null ? '' : ` --topic ${why.pausedTopic}`}`,
      ]),
    why.code === 'outage' &&
      does('probe', { subscriber }, { of: subscriber }, ['To probe now', `probe ${subscriber} --wait`]),
    behind && firstInLine(behind, subscriber, of),
  ];
}

function firstInLine({ code, deliveryId, eventId }: InFront, subscriber: string, of: string): Act {
  if (code === 'halted')
    return leads(deadLetterPath(deliveryId), 'Open the dead letter', `of ${of}`, [
      'To let it go on',
      `replay --delivery ${deliveryId}, or npx postbud dismiss ${deliveryId} --reason <text>`,
    ]);
  const next = code === 'backoff' ? 'When it is fixed' : 'The first in line';
  const line = code === 'backoff' ? `retry ${deliveryId} --wait` : `why ${eventId}`;
  return leads(`${eventPath(eventId)}#to-${subscriber}`, 'Open the first in line', `of ${of}`, [next, line]);
}

/** What is known of an event. */
function eventFacts(event: Omit<EventView['event'], 'state'>, now: string): Facts {
  const { eventId, topic, orderingKey, dedupeKey, correlationId, causationId, traceparent } = event;
  return [
    ['Event id', link(eventPath(eventId), eventId)],
    ['Topic', link(topicPath(topic), topic)],
    ['About', inTerminal(event.subject ?? '')],
    ['Producer', mono(event.producer)],
    ['Version', String(event.version)],
    ['Recorded', whenAndAgo(event.createdAt, now)],
    orderingKey !== '' && ['Ordering key', link(eventsWithPath(orderingKey), visibleName(orderingKey))],
    dedupeKey !== null && ['Dedupe key', mono(visibleName(dedupeKey))],
    correlationId !== null && ['Correlation id', link(eventsWithPath(correlationId), correlationId)],
    causationId !== null && ['Caused by', link(eventPath(causationId), causationId)],
    traceparent !== null && ['Trace', mono(traceparent)],
  ];
}

/** An event that led to this one, this one, or one that it led to. */
type Relative = RelatedEvent & { readonly role: 'cause' | 'this event' | 'effect' };

/** What led to an event, and what it led to, in the order of causes. */
function familyList({ event, causes, effects, generatedAt: now }: EventView): List<Relative> {
  return {
    name: 'Causes and effects',
    columns: [
      { label: 'Role', look: 'nowrap', cell: ({ role }) => role },
      { label: 'What', isRowHeader: true, look: 'wrap', cell: relativePhrase },
      { label: 'State', cell: ({ state }) => state && statePhrase(state) },
      {
        label: 'When',
        look: 'nowrap',
        cell: ({ createdAt }) => createdAt !== null && whenAndAgo(createdAt, now),
      },
    ],
    rows: [
      ...causes.map((cause) => ({ ...cause, role: 'cause' as const })),
      { ...event, role: 'this event' },
      ...effects.map((effect) => ({ ...effect, role: 'effect' as const })),
    ],
  };
}

function relativePhrase({ role, eventId, topic, subject }: Relative): Part {
  if (topic === null)
    return say`${mono(eventId)}${below(muted('no longer kept, or no event of this bus'), ', ')}`;
  if (role === 'this event') return mono(topic);
  return say`${{ ...link(eventPath(eventId), topic), text: `${topic} ${eventId}` }}${below(subject, ', ')}`;
}

/** What the list leaves out, and the way to what shares the correlation id. */
function familyNote({ event, effects }: EventView): Part {
  const all = inConsole(
    event.correlationId !== null &&
      html` · <a href="${eventsWithPath(event.correlationId)}">All events with the same correlation id</a>`,
  );
  if (effects.length === MOST_EFFECTS) return say`the first ${MOST_EFFECTS} effects${all}`;
  return say`${effects.length === 0 ? 'no effect is known' : 'what led to this event, and what it led to'}${all}`;
}

import { html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import { gapsSection } from '../backfills/gaps-section.ts';
import { errorsBlock } from '../dead-letters/doc.ts';
import { heldLanesBlock } from '../held-lanes/block.ts';
import type { HeldLane } from '../held-lanes/held-lane.ts';
import { haltedBy } from '../incidents/lists.ts';
import { dismissLetterForm, pauseForm, retireLink } from '../kit/actions.ts';
import { byReplay, does, replays } from '../kit/doc.ts';
import type { Act, Block, Doc } from '../kit/doc.ts';
import {
  below,
  errorPhrase,
  link,
  mono,
  muted,
  say,
  statePhrase,
  styled,
  strong,
  subscriberPhrase,
  toMinute,
  whenAndAgo,
} from '../kit/document.ts';
import type { Facts, List, Part } from '../kit/document.ts';
import {
  ALL_TIME,
  backfillsPath,
  catalogPath,
  eventPath,
  eventsPath,
  eventsWithPath,
  HOME,
  incidentsPath,
} from '../kit/links.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { endsOf } from '../kit/prepared.ts';
import { count, quantity, shortId } from '../kit/words.ts';
import type { SubscriberOverview } from '../overview/read.ts';
import { countColumns, subscriberTags, whyLines } from '../overview/topic-table.ts';
import type { HaltedLane, RecentEvent, TopicView } from './read.ts';

/** Says how a topic is: its subscribers, the lanes that wait, its errors and its newest events. */
export function topicDoc(view: TopicView, names: OperatorNames): Doc {
  const { topic: of, description, gaps, errors, events, haltedLanes, generatedAt: at } = view;
  const { topic } = of;
  return {
    title: mono(topic),
    lead: description,
    section: 'overview',
    at,
    back: [HOME, 'Overview'],
    blocks: [
      { id: 'topic', facts: topicFacts(view) },
      {
        id: 'subscribers',
        title: 'Subscribers',
        hint: say`deliveries of this topic by state · ${linked(backfillsPath({ topic }), 'backfills')}`,
        list: subscriberList(view, names),
        acts: ({ one }: SubscriberRow) => subscriberActs(topic, one),
      },
      { id: 'gaps', drawn: () => gapsSection({ gaps, isOfTopic: true, now: at }) },
      {
        id: 'halted',
        title: 'Halted lanes',
        hint: 'A lane is a subscriber’s deliveries in order. These wait until their dead letter is replayed or dismissed.',
        list: haltedLaneList(haltedLanes, view),
        acts: (lane: HaltedLane) => haltedLaneActs(lane, topic),
      },
      heldBlock(view),
      errors.length > 0 && { ...errorsBlock(errors, at, null), id: 'errors', title: 'Dead letters by error' },
      {
        id: 'events',
        title: 'Recent events',
        hint: say`newest first · ${linked(eventsPath({ topic }), 'all of them')}`,
        list: eventList(topic, events, at),
        empty: { title: 'No events yet' },
      },
    ],
  };
}

function linked(path: string, words: string): Part {
  return { html: html`<a href="${path}">${words}</a>`, text: words };
}

function topicFacts({ topic: of, version, orderedBy, generatedAt: now }: TopicView): Facts {
  const { topic, inCatalog, producer, pending, failing, deadLettered, awaitingPlace } = of;
  const { heldBackSince, heldBackBy } = of;
  return [
    inCatalog && ['Producer', mono(producer)],
    inCatalog && ['Order', orderedBy === null ? 'whole topic' : say`by ${mono(orderedBy)}`],
    inCatalog && ['Version', version],
    ['Events', `${count(pending)} pending, ${count(failing)} failing, ${count(deadLettered)} dead-lettered`],
    awaitingPlace > 0 && [
      'Waiting for their places',
      `${quantity(awaitingPlace, 'event')}: the relay has not yet given them their places in the order, in which they are delivered`,
    ],
    heldBackSince !== null && [
      'Held back',
      styled(
        'yellow',
        say`since ${toMinute(heldBackSince, now)}, by ${
          heldBackBy === null
            ? 'an open transaction of its producer'
            : say`the prepared transaction ${mono(heldBackBy.gid)} of ${mono(heldBackBy.owner)}. End it: ${endsOf(heldBackBy).join(' or ')}`
        }`,
      ),
    ],
    failing + deadLettered > 0 && ['Incidents', linked(incidentsPath({ topic }), 'What goes wrong')],
    ['Contract', inCatalog ? linked(catalogPath(), 'In the catalog') : 'Not in this release’s catalog'],
  ];
}

type SubscriberRow = Parameters<ReturnType<typeof countColumns>[number]['cell']>[0] & {
  readonly one: SubscriberOverview;
};

function subscriberList(
  { topic: of, generatedAt: now }: TopicView,
  names: OperatorNames,
): List<SubscriberRow> {
  const { topic } = of;
  return {
    name: 'Subscribers',
    caption: `Deliveries of ${topic} by subscriber and state`,
    columns: [
      {
        label: 'Subscriber',
        isRowHeader: true,
        cell: ({ one }) =>
          say`${strong(subscriberPhrase(one.subscriber, topic))} ${subscriberTags(one, of)}${{ html: whyLines(one, now, names), text: '' }}`,
      },
      ...countColumns(now),
      { label: 'Last delivered', look: 'nowrap', cell: ({ one }) => orNever(one.lastDeliveredAt, now) },
      { label: 'Last failed', look: 'nowrap', cell: ({ one }) => orNever(one.lastFailedAt, now) },
    ],
    rows: of.subscribers.map((one) => ({
      one,
      counts: one,
      of: `of ${one.subscriber}`,
      deadLettersOf: { topic, subscriber: one.subscriber },
    })),
  };
}

function subscriberActs(topic: string, one: SubscriberOverview): readonly (Act | false)[] {
  const { subscriber, deadLettered, paused, pause, outage, inCatalog } = one;
  return [
    deadLettered > 0 &&
      inCatalog &&
      replays({ topic, subscriber }, `to ${subscriber}`, { topic, subscriber, since: ALL_TIME }),
    outage !== null && does('probe', { subscriber }, { of: subscriber }),
    paused
      ? does('resume', { subscriber }, { of: subscriber, hidden: { topic: pause?.topic ?? null } })
      : inCatalog && byReplay((context) => pauseForm(subscriber, topic, context)),
    !inCatalog && byReplay(() => retireLink(subscriber, topic)),
  ];
}

function orNever(instant: string | null, now: string): Part {
  return instant === null ? muted('never') : whenAndAgo(instant, now);
}

/** Names a lane on its topic's page: its subscriber, and below it its ordering key. */
function laneName(
  { subscriber, orderingKey }: Pick<HeldLane, 'subscriber' | 'orderingKey'>,
  { topic, orderedBy }: TopicView,
): Part {
  const key =
    orderingKey === '' ? 'whole topic' : say`${orderedBy ?? 'key'} ${mono(visibleName(orderingKey))}`;
  return say`${strong(subscriberPhrase(subscriber, topic.topic))}${below(key, ', ')}`;
}

function haltedLaneList(rows: readonly HaltedLane[], view: TopicView): List<HaltedLane> {
  return {
    name: 'Halted lanes',
    caption: 'Lanes that a dead letter halts, the longest first',
    columns: [
      { label: 'Lane', isRowHeader: true, look: 'wrap', cell: (lane) => laneName(lane, view) },
      {
        label: 'Waiting',
        tone: 'num',
        cell: ({ isMore, waiting }) => `${isMore ? 'over ' : ''}${count(waiting)}`,
      },
      {
        label: 'Halted by',
        terminal: { isBelow: true },
        cell: (lane) => haltedBy(lane, view.generatedAt, `#to-${lane.subscriber}`),
      },
      {
        label: 'Last error',
        look: 'message',
        terminal: { isFlexible: true },
        cell: ({ lastError }) => lastError && errorPhrase(lastError),
      },
    ],
    rows,
  };
}

function haltedLaneActs({ subscriber, orderingKey, deliveryId }: HaltedLane, topic: string): readonly Act[] {
  const of = `${topic} to ${subscriber} ${orderingKey}`.trimEnd();
  return [
    replays({ topic, subscriber }, of, { deliveryIds: deliveryId }),
    byReplay((context) => dismissLetterForm(deliveryId, of, true, context)),
  ];
}

function heldBlock(view: TopicView): Block {
  const { heldLanes: lanes, topic, generatedAt: now } = view;
  const paused = topic.subscribers.filter((one) => one.paused);
  const silent = topic.subscribers.filter(({ outage }) => outage !== null);
  const isOf =
    ({ subscriber: name }: HeldLane) =>
    ({ subscriber }: SubscriberOverview) =>
      subscriber === name;
  const holds = (lane: HeldLane) =>
    paused.some(isOf(lane)) ? 'pause' : silent.some(isOf(lane)) ? 'outage' : null;
  const none = paused.some(({ failing }) => failing > 0)
    ? 'The failing deliveries are retried when their subscriber is resumed'
    : 'Retrying. The result appears here in seconds';
  const name = (lane: HeldLane) => laneName(lane, view);
  return heldLanesBlock({ lanes, now, name, holds }, topic.failing === 0 ? null : none);
}

function eventList(topic: string, rows: readonly RecentEvent[], now: string): List<RecentEvent> {
  return {
    name: 'Recent events',
    caption: `The newest events of ${topic}`,
    columns: [
      {
        label: 'Event',
        look: 'nowrap',
        cell: ({ eventId }) => ({ ...link(eventPath(eventId), shortId(eventId)), text: eventId }),
      },
      { label: 'About', look: 'nowrap', cell: ({ subject }) => subject ?? muted('–') },
      {
        label: 'Ordering key',
        look: 'wrap',
        cell: ({ orderingKey }) =>
          orderingKey === '' ? muted('–') : link(eventsWithPath(orderingKey), visibleName(orderingKey)),
      },
      { label: 'Recorded', look: 'nowrap', cell: ({ createdAt }) => whenAndAgo(createdAt, now) },
      { label: 'State', tone: 'end', look: 'nowrap', cell: ({ state }) => statePhrase(state) },
    ],
    rows,
  };
}

import * as z from 'zod';

import { catalog, isTopicName } from '../../bus/catalog/catalog.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import type { Topic } from '../../bus/catalog/topic.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/database.ts';
import { errorsBlock } from '../dead-letters/doc.ts';
import { groupOfErrors } from '../dead-letters/fields.ts';
import { readDeadLetters } from '../dead-letters/read.ts';
import { LISTED_LANES, heldLane, heldLanesBlock, readHeldLanes } from '../held-lanes/held-lanes.ts';
import { does } from '../kit/doc.ts';
import type { Doc } from '../kit/doc.ts';
import { mono, pageLinks, say, strong, styled, subscriberPhrase, when } from '../kit/document.ts';
import type { Facts, List, OperatorNames } from '../kit/document.ts';
import { hasEvents } from '../kit/known-names.ts';
import { ALL_TOPICS, HOME, eventsPath, incidentsPath, replaysPath } from '../kit/links.ts';
import { endsOf } from '../kit/prepared.ts';
import { topicText } from '../kit/replay-request.ts';
import { view } from '../kit/view.ts';
import { count, quantity } from '../kit/words.ts';
import * as shape from '../kit/shapes.ts';
import { readOverview, topicOverview } from '../overview/read.ts';
import type { SubscriberOverview } from '../overview/read.ts';
import { isTroubled, standingColumns } from '../overview/standing.ts';

export const topicView = z
  .object({
    generatedAt: shape.instant,
    topic: topicOverview,
    description: z.string(),
    version: z.int().positive().nullable().describe('Null if the catalog does not have the topic.'),
    orderedBy: shape.orderedBy,
    heldLanes: z
      .array(heldLane)
      .max(LISTED_LANES)
      .describe('Sorted by their next attempt, then those that a dead letter halts.'),
    errors: z.array(groupOfErrors),
  })
  .meta({ id: 'TopicView', description: 'The state of one topic.' });

export type TopicView = z.output<typeof topicView>;
/**
 * Reads one topic.
 *
 * @param now overrides the database's clock in tests.
 */
export async function readTopic(
  db: Database,
  attached: readonly AttachedSubscriber[],
  topic: string,
  now?: Date,
): Promise<TopicView> {
  const [overview, deadLetters, heldLanes] = await Promise.all([
    readOverview(db, attached, now, true, topic),
    readDeadLetters(db, { topic, limit: 1 }, now),
    readHeldLanes(db, { topic }, attached, now),
  ]);
  const row: Topic | null = isTopicName(topic) ? catalog[topic] : null;
  return {
    generatedAt: overview.generatedAt,
    topic: overview.topics.find((one) => one.topic === topic)!,
    description: row?.description ?? (topic === SMOKE_TEST.topic ? SMOKE_TESTS : UNLISTED),
    version: row?.version ?? null,
    orderedBy: row?.orderedBy ?? null,
    heldLanes,
    errors: deadLetters.groups,
  };
}

const SMOKE_TESTS = 'The events of smoke tests, which operators send. No figure counts them.';

const UNLISTED =
  'This release’s catalog does not have the topic: another release emitted its events. They wait for a release with a handler for them.';

/** Says how a topic is: its subscribers, the lanes that wait, and its errors. */
export function topicDoc(shown: TopicView, names: OperatorNames): Doc {
  const { topic: of, description, errors, generatedAt: at } = shown;
  const { topic } = of;
  return {
    title: mono(topic),
    lead: description,
    section: 'overview',
    at,
    back: [HOME, 'Overview'],
    blocks: [
      { id: 'topic', facts: topicFacts(shown) },
      {
        id: 'subscribers',
        title: 'Subscribers',
        hint: 'deliveries of this topic by state; what else can be done is on the page of each',
        list: subscriberList(shown, names),
        acts: ({ subscriber, outage, paused, pause }: SubscriberOverview) => [
          outage !== null && does('probe', { subscriber }, { of: subscriber }),
          paused &&
            does('resume', { subscriber }, { of: subscriber, hidden: { topic: pause?.topic ?? null } }),
        ],
      },
      heldLanesBlock(shown.heldLanes, at),
      errors.length > 0 && { ...errorsBlock(errors, at), id: 'errors', title: 'Dead letters by error' },
    ],
  };
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
        say`since ${when(heldBackSince, now)}, by ${
          heldBackBy === null
            ? 'an open transaction of its producer'
            : say`the prepared transaction ${mono(heldBackBy.gid)} of ${mono(heldBackBy.owner)}. End it: ${endsOf(heldBackBy).join(' or ')}`
        }`,
      ),
    ],
    [
      'See also',
      pageLinks(
        [eventsPath({ topic }), 'all its events'],
        [incidentsPath({ topic }), 'its incidents'],
        [replaysPath({ topic }), 'the operator log'],
      ),
    ],
  ];
}

function subscriberList({ topic: of, generatedAt: now }: TopicView, names: OperatorNames) {
  const { topic } = of;
  const { state, pending, failing, deadLetters, lastFailed } = standingColumns(now, names);
  return {
    name: 'Subscribers',
    columns: [
      {
        label: 'Subscriber',
        isRowHeader: true,
        cell: ({ subscriber }) => strong(subscriberPhrase(subscriber)),
      },
      pending,
      failing,
      deadLetters,
      state,
      lastFailed,
    ],
    rows: of.subscribers
      .toSorted((one, other) => Number(isTroubled(other)) - Number(isTroubled(one)))
      .map((one) => ({ ...one, topic })),
  } satisfies List<SubscriberOverview & { readonly topic: string }>;
}

const showTopic = view({
  id: 'readTopic',
  path: `${HOME}/topics/{topic}`,
  summary: 'See one topic: its subscribers, waiting lanes and errors',
  parameters: { topic: topicText },
  answer: topicView,
  unknown: `Unknown topic. All topics: ${ALL_TOPICS}.`,
  handle: async ({ parameters: { topic }, bus }) => {
    const db = await bus.database();
    const isKnown = isTopicName(topic) || (await hasEvents(db, topic));
    return isKnown ? await readTopic(db, bus.subscribers(), topic) : null;
  },
  says: topicDoc,
  command: {
    name: 'topic',
    argument: 'topic',
    summary: 'show one topic: its subscribers, lanes that wait, and errors',
    examples: [['topic payment.captured', 'how the topic is, and why its deliveries wait']],
  },
});

export const laneViews = [showTopic];

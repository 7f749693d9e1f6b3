import * as z from 'zod';

import { previewRename, rename as renameLanes } from '../../bus/deliveries/operations/rename.ts';
import { requireUnlisted, retire as deleteAll } from '../../bus/deliveries/operations/retire.ts';
import { hasLeft, standingUnder } from '../../bus/deliveries/operations/standing.ts';
import { CountChanged } from '../../bus/deliveries/refusals.ts';
import { driverOf } from '../../platform/db/statement.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { countColumn, link } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { knownIn } from '../kit/known-names.ts';
import { HOME, subscriberPath, topicPath } from '../kit/links.ts';
import { operation } from '../kit/operation.ts';
import type { Plan } from '../kit/plan.ts';
import { OPERATED, topicText } from '../kit/replay-request.ts';
import type { Bus } from '../kit/route.ts';
import { joinNames, quantity } from '../kit/words.ts';
import * as shape from '../kit/shapes.ts';
import { oneTopicOrAll } from './actions.ts';

// What ends a subscriber's name: it is retired, or renamed.

const UNKNOWN = 'Nothing is left of this name, or it never had a delivery.';

/** A topic’s deliveries that wait under a name, and those that died. */
const standing = z.object({
  topic: shape.topic,
  waiting: shape.count.describe('Deliveries that wait, with events that await their places.'),
  deadLettered: shape.count,
});
type Standing = z.output<typeof standing>;

const retirement = z
  .object({
    subscriber: z.string(),
    topic: shape.topic.nullable().describe('Only this topic; null: all of them.'),
    topics: z.array(standing),
    matched: shape.count,
  })
  .meta({ id: 'Retirement', description: 'What a retirement would dismiss. Nothing was dismissed.' });

const retired = z
  .object({
    subscriber: z.string(),
    topics: z.array(shape.topic),
    dismissed: shape.count.describe('Deliveries that waited, and dead letters.'),
  })
  .meta({ id: 'Retired', description: 'The retired subscriptions.' });

const named = { ...OPERATED, topic: oneTopicOrAll(topicText) };

const COMMON = { section: 'subscribers', unknown: UNKNOWN, isReasonNeeded: true } as const;

const TOPIC_OPTION = { topic: { value: '<topic>', help: 'only this topic; by default every topic' } };

export const retire = operation({
  ...COMMON,
  verb: 'retire',
  past: 'retired',
  noun: 'retirement',
  path: `${HOME}/subscribers/{subscriber}/retire`,
  parameters: { subscriber: shape.subscriberName },
  id: 'retireSubscriber',
  previewId: 'previewRetirement',
  summary: 'retire a subscriber that the catalog no longer lists',
  description:
    'Dismisses what waits for it and what died, and deletes what is recorded of its deliveries. Afterwards the subscription shows up nowhere but in the operator log. Refused while the catalog of the server’s release lists it.',
  problems: ['still_listed', 'count_changed', 'not_confirmed', 'under_way'],
  body: z.object(named).meta(shape.needsReason),
  preview: retirement,
  answer: retired,
  find: async ({ bus, body: { topic } }, { subscriber }) => await previewRetirement(bus, subscriber, topic),
  async act({ bus, by, reason, body: { topic, expectedCount } }, { subscriber }) {
    const found = expectedCount === undefined ? null : await previewRetirement(bus, subscriber, topic);
    if (found) requireCount(expectedCount, found.topics, 'retired');
    const done = await deleteAll(
      await knownIn(bus, { topic: topic ?? undefined }),
      { subscriber, topic },
      { by, reason },
    );
    return done && { subscriber, ...done, topics: [...done.topics] };
  },
  says: ({ subscriber, topic, topics, matched }) => ({
    ...leavingPlan(subscriber, topics),
    request: { topic, expectedCount: matched },
    facts: [
      ['Deletes', 'What is recorded of its deliveries on these topics. Their events stay'],
      ['Ends', 'Its pauses, backfills and outage on these topics'],
    ],
  }),
  reason: ['replaced by accounting in March'],
  done: ({ subscriber, topics, dismissed }) =>
    `Retired ${subscriber}${onTopics(topics)}: ${quantity(dismissed, 'delivery')} dismissed.`,
  leads: () => HOME,
  command: {
    examples: [
      ['retire postcards --reason "postcards are history"', 'all its topics, after confirmation'],
      ['retire postcards --dry-run', 'a preview only'],
    ],
    takes: { subscriber: 'subscriber' },
    options: TOPIC_OPTION,
  },
});

/** Counts what a retirement would dismiss. @returns null when there is nothing of it. */
async function previewRetirement(bus: Bus, subscriber: string, topic: string | null) {
  const db = driverOf(await knownIn(bus, { topic: topic ?? undefined }));
  requireUnlisted(subscriber, topic);
  const topics = [...(await standingUnder(db, subscriber, topic))];
  if (topics.length === 0 && !(await hasLeft(db, subscriber, 'retire'))) return null;
  return { subscriber, topic, topics, matched: sumOf(topics) };
}

const ANOTHER = 'expected the new name, which is another than the former one';

const renamed = z
  .object({
    subscriber: z.string().describe('The former name.'),
    to: z.string(),
    topics: z.array(standing),
  })
  .meta({
    id: 'Renamed',
    description: 'What stood under the former name, by topic, and is the new name’s now.',
  });

/** A command, and no form: it is run once, before the release that lists the new name. */
export const rename = operation({
  ...COMMON,
  verb: 'rename',
  past: 'renamed',
  noun: 'renaming',
  path: `${HOME}/subscribers/{subscriber}/rename`,
  parameters: { subscriber: shape.subscriberName.describe('The former name.') },
  id: 'renameSubscriber',
  summary: 'rename a subscriber before the release that lists its new name',
  description:
    'Its lanes with all their deliveries, its pauses, errors, incidents and health are the new name’s. Nothing of them is handed over until a release runs that lists it: deploy that right after. Events that the former release emits meanwhile are for the former name: backfill them for the new one, then retire the former one. Refused where the new name is another subscriber’s.',
  problems: ['name_taken', 'count_changed', 'under_way'],
  body: z
    .object({
      to: z
        .preprocess((to) => to ?? '', shape.subscriberName)
        .meta({ type: 'string', description: 'The new name.' }),
      ...named,
    })
    .meta({ required: ['to', 'reason'] }),
  preview: renamed,
  answer: renamed,
  async find({ bus, body: { to, topic } }, { subscriber }) {
    requireAnother(subscriber, to);
    const topics = await previewRename(await knownIn(bus, { topic: topic ?? undefined }), {
      from: subscriber,
      to,
      topic,
    });
    return topics && { subscriber, to, topics: [...topics] };
  },
  async act({ bus, by, reason, body: { to, topic, expectedCount } }, { subscriber }) {
    requireAnother(subscriber, to);
    const db = await knownIn(bus, { topic: topic ?? undefined });
    const names = { from: subscriber, to, topic };
    if (expectedCount !== undefined)
      requireCount(expectedCount, (await previewRename(db, names)) ?? [], 'renamed');
    const topics = await renameLanes(db, names, { by, reason });
    return topics && { subscriber, to, topics: [...topics] };
  },
  says: ({ subscriber, to, topics }) => ({
    ...leavingPlan(`${subscriber} to ${to}`, topics),
    facts: [['Then', `Deploy the release that lists ${to}`]],
    request: { to, expectedCount: sumOf(topics) },
  }),
  reason: ['letters from 2.4 on'],
  done: ({ subscriber, to }) => `Renamed ${subscriber} to ${to}. Deploy the release that lists ${to} now.`,
  leads: ({ to }) => subscriberPath(to),
  command: {
    examples: [
      ['rename postcards letters --reason "letters from 2.4 on"', 'all its topics, after confirmation'],
      ['rename postcards letters --dry-run', 'a preview only'],
    ],
    takes: { subscriber: 'former name', to: 'new name' },
    options: TOPIC_OPTION,
  },
});

function requireAnother(from: string, to: string): void {
  if (to === from) requireValid({ to }, z.object({ to: z.never(ANOTHER) }));
}

const sumOf = (topics: readonly Standing[]) =>
  topics.reduce((sum, { waiting, deadLettered }) => sum + waiting + deadLettered, 0);

/** @throws CountChanged where another number than the preview's stands under a name. */
function requireCount(expected: number | undefined, topics: readonly Standing[], past: string): void {
  const found = sumOf(topics);
  if (expected !== undefined && expected !== found) throw new CountChanged(expected, found, past);
}

const onTopics = (topics: readonly string[]) => (topics.length === 0 ? '' : ` on ${joinNames(topics)}`);

/** Says what stands under a name that leaves. A pause of it may be all. */
function leavingPlan(name: string, topics: readonly Standing[]): Omit<Plan, 'request' | 'facts'> {
  return {
    what: `${name}${onTopics(topics.map(({ topic }) => topic))}`,
    matched: sumOf(topics),
    list:
      topics.length > 0 &&
      ({
        name: 'Topics',
        columns: [
          { label: 'Topic', isRowHeader: true, cell: ({ topic }) => link(topicPath(topic), topic, 'roomy') },
          countColumn('Waiting', ({ waiting }) => waiting),
          countColumn('Dead letters', ({ deadLettered }) => deadLettered),
        ],
        rows: topics,
      } satisfies List<Standing>),
    cancel: HOME,
  };
}

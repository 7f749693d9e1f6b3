import * as z from 'zod';

import { previewRename, rename as renameLanes } from '../../bus/deliveries/operations/rename.ts';
import type { Database } from '../../platform/db/connect.ts';
import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { NO_REASON } from '../kit/action.ts';
import { requireKnownTopic } from '../kit/known-names.ts';
import { HOME, subscriberPath } from '../kit/links.ts';
import { operation } from '../kit/operation.ts';
import type { Plan } from '../kit/plan.ts';
import { problemOf } from '../kit/problem-of.ts';
import { topicText } from '../kit/replay-request.ts';
import type { Bus } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { joinNames } from '../kit/words.ts';
import { standing, standingList } from './standing-under.ts';

const UNKNOWN =
  'There is nothing to rename: no lane, no pause and no event that awaits its place has this name.';

const ANOTHER = 'expected the new name, which is another than the former one';

const renamed = z
  .object({
    subscriber: z.string().meta({ description: 'The former name.' }),
    to: z.string(),
    topics: z.array(standing),
  })
  .meta({
    id: 'Renamed',
    description: 'What stood under the former name, by topic, and is the new name’s now.',
  });

type Renamed = z.output<typeof renamed>;

/** A command, and no form: it is run once, before the release that lists the new name. */
export const rename = operation({
  verb: 'rename',
  section: 'subscribers',
  path: `${HOME}/subscribers/{subscriber}/rename`,
  parameters: { subscriber: shape.subscriberName.meta({ description: 'The former name.' }) },
  unknown: UNKNOWN,
  body: z
    .object({
      to: z
        .preprocess((to) => to ?? '', shape.subscriberName)
        .meta({ type: 'string', description: 'The new name.' }),
      topic: topicText
        .nullish()
        .transform((named) => named ?? null)
        .meta({
          description: 'Only this topic. Without it, all topics of the former name.',
        }),
      reason: shape.requiredReason,
      dryRun: z.boolean().default(false).meta({ description: 'Only says what would be renamed.' }),
    })
    .meta({ required: ['to', 'reason'] }),
  preview: renamed,
  answer: renamed,
  begun: {
    id: 'renameSubscriber',
    summary: 'Rename a subscriber before the release that lists its new name',
    description:
      'Its lanes with all their deliveries, its pauses, errors, incidents and health are the new name’s. Nothing of them is handed over until a release runs that lists the new name. Events that the former release emits meanwhile are for the former name: backfill them for the new one, then retire the former one.',
    problems: ['name_taken', 'under_way'],
    examples: {
      preview: {
        summary: 'What would be renamed, without renaming it',
        parameters: { subscriber: 'faxes' },
        json: { to: 'letters', reason: 'Faxes are letters from 2.4 on.', dryRun: true },
        answer: answered(),
      },
      'all-topics': {
        summary: 'All topics of a name',
        parameters: { subscriber: 'faxes' },
        json: { to: 'letters', reason: 'Faxes are letters from 2.4 on.' },
        answer: answered(),
      },
      'name-taken': {
        summary: 'To the name of another subscriber',
        parameters: { subscriber: 'accounting' },
        json: { to: 'ledger', topic: 'payment.dispute.closed', reason: 'Accounting is the ledger now.' },
        answer: refused('name_taken', {
          detail:
            'ledger is another subscriber of payment.dispute.closed, with deliveries of its own. Nothing was renamed. Where the new name runs already, give it what accounting lacked to get by a backfill, and retire accounting.',
        }),
      },
      nobody: {
        summary: 'A name without any delivery',
        parameters: { subscriber: 'telegrams' },
        json: { to: 'notifications', reason: 'Telegrams are notifications now.' },
        answer: refused('not_found', { detail: UNKNOWN }),
      },
      'to-the-same-name': {
        summary: 'To the name that it has',
        parameters: { subscriber: 'faxes' },
        json: { to: 'faxes', reason: 'Faxes are faxes.' },
        answer: invalid('to', 'invalid_type', ANOTHER),
      },
      'without-a-reason': {
        summary: 'Without a reason',
        parameters: { subscriber: 'faxes' },
        json: { to: 'letters' },
        answer: NO_REASON,
      },
    },
  },
  async find({ bus, body: { to, topic } }, { subscriber }) {
    const topics = await tried(bus, { from: subscriber, to, topic }, previewRename);
    return topics && { subscriber, to, topics: [...topics] };
  },
  async act({ bus, operator, body: { to, topic, reason } }, { subscriber }) {
    const how = { by: operator.subject, reason };
    const topics = await tried(
      bus,
      { from: subscriber, to, topic },
      async (db, names) => await renameLanes(db, names, how),
    );
    return topics && { subscriber, to, topics: [...topics] };
  },
  says: renamePlan,
  reason: ['letters from 2.4 on'],
  leads: ({ to }) => subscriberPath(to),
  command: {
    summary: 'rename a subscriber before the release that lists its new name',
    usage: [
      'rename <former name> <new name> [--topic <topic>] --reason <text> [--yes]',
      'rename <former name> <new name> [--topic <topic>] --dry-run',
    ],
    notes: [
      'Its lanes with all their deliveries, its pauses, errors and incidents are the new name’s. Nothing of them is handed over until a release runs that lists it: deploy that right after. Events that the former release emits meanwhile are for the former name: backfill them for the new one, then retire the former one.',
      'Refused where the new name is another subscriber’s. First shows what it would rename, then asks for confirmation. Without a terminal it needs --yes.',
    ],
    examples: [
      ['rename postcards letters --reason "letters from 2.4 on"', 'all its topics, after confirmation'],
      ['rename postcards letters --dry-run', 'a preview only'],
    ],
    takes: [
      ['subscriber', 'The former name is missing.'],
      ['to', 'The new name is missing.'],
    ],
    options: { topic: { value: '<topic>', help: 'only this topic; by default every topic' } },
    nothing: 'Nothing was renamed.',
    example: 'rename postcards letters --reason "letters from 2.4 on"',
    isReasonNeeded: true,
    done: ({ to }, { what }) => ({ words: `Renamed ${what}. Deploy the release that lists ${to} now.` }),
  },
});

function renamePlan({ subscriber, to, topics }: Renamed): Plan {
  const what = `${subscriber} to ${to} on ${joinNames(topics.map(({ topic }) => topic))}`;
  return {
    what,
    matched: topics.reduce((sum, { waiting, deadLettered }) => sum + waiting + deadLettered, 0),
    lead: 'Nothing has been renamed yet.',
    facts: [],
    list: standingList(topics),
    request: { to },
    button: `Rename ${what}`,
    cancel: subscriberPath(subscriber),
    nothing: topics.length === 0 && {
      title: `Nothing is left of ${subscriber}`,
      text: ['No delivery waits for it. A pause of it becomes the new name’s.'],
      action: [HOME, 'Overview'],
      isBegun: true,
    },
  };
}

type Names = Parameters<typeof previewRename>[1];

/** @throws Problem 400 or 409 where the name cannot be given. */
async function tried<Done>(
  bus: Bus,
  names: Names,
  act: (db: Database, names: Names) => Promise<Done>,
): Promise<Done> {
  const { from, to, topic } = names;
  if (to === from) requireValid({ to }, z.object({ to: z.never(ANOTHER) }));
  const db = await bus.database();
  await requireKnownTopic(db, topic ?? undefined);
  try {
    return await act(db, names);
  } catch (error) {
    throw problemOf(error);
  }
}

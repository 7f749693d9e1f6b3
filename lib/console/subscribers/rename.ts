import * as z from 'zod';

import { previewRename, rename as renameLanes } from '../../bus/deliveries/operations/rename.ts';
import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { action, NO_REASON } from '../kit/action.ts';
import { requireKnownTopic } from '../kit/known-names.ts';
import { HOME } from '../kit/links.ts';
import { problemOf } from '../kit/problem-of.ts';
import { topicText } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { standing } from './leaving-views.ts';

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

const RENAMED: z.output<typeof renamed> = {
  subscriber: 'faxes',
  to: 'letters',
  topics: [{ topic: 'payment.captured', waiting: 12, deadLettered: 2 }],
};

/** A command alone: it is run once, before the release that lists the new name. */
export const rename = action({
  name: 'rename',
  id: 'renameSubscriber',
  path: `${HOME}/subscribers/{subscriber}/rename`,
  summary: 'Rename a subscriber before the release that lists its new name',
  description:
    'Its lanes with all their deliveries, its pauses, errors, incidents and health are the new name’s. Nothing of them is handed over until a release runs that lists the new name. Events that the former release emits meanwhile are for the former name: backfill them for the new one, then retire the former one.',
  parameters: { subscriber: shape.subscriberName.meta({ description: 'The former name.' }) },
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
  answer: renamed,
  problems: ['name_taken', 'under_way'],
  unknown: UNKNOWN,
  examples: {
    preview: {
      summary: 'What would be renamed, without renaming it',
      parameters: { subscriber: 'faxes' },
      json: { to: 'letters', reason: 'Faxes are letters from 2.4 on.', dryRun: true },
      answer: answered(RENAMED),
    },
    'all-topics': {
      summary: 'All topics of a name',
      parameters: { subscriber: 'faxes' },
      json: { to: 'letters', reason: 'Faxes are letters from 2.4 on.' },
      answer: answered(RENAMED),
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
  handle: async ({ parameters: { subscriber }, body: { to, topic, reason, dryRun }, operator, bus }) => {
    if (to === subscriber) requireValid({ to }, z.object({ to: z.never(ANOTHER) }));
    const db = await bus.database();
    await requireKnownTopic(db, topic ?? undefined);
    const names = { from: subscriber, to, topic };
    try {
      const topics = dryRun
        ? await previewRename(db, names)
        : await renameLanes(db, names, { by: operator.subject, reason });
      return topics && { subscriber, to, topics: [...topics] };
    } catch (error) {
      throw problemOf(error);
    }
  },
});

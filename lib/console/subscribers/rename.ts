import * as z from 'zod';

import { previewRename, rename as moveName } from '../../bus/deliveries/operations/rename.ts';
import type { Rename, RenamedTopic } from '../../bus/deliveries/operations/rename.ts';
import type { Database } from '../../platform/db/connect.ts';
import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { SECOND } from '../../platform/time.ts';
import { action, NO_REASON } from '../kit/action.ts';
import { readConfirmedForm, requireCount } from '../kit/confirmed-form.ts';
import { asForm } from '../kit/form-request.ts';
import { requireKnownTopic } from '../kit/known-names.ts';
import { HOME, subscriberPath } from '../kit/links.ts';
import { problemOf } from '../kit/problem-of.ts';
import { topicText } from '../kit/replay-request.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { followRename } from './follow-leaving.ts';
import { renamePage } from './leaving-pages.ts';
import { renamed } from './leaving-views.ts';
import type { Renamed } from './leaving-views.ts';

/** A function lives 30 seconds. */
const LONGEST_MS = 20 * SECOND;

const UNKNOWN =
  'Unknown subscriber: it never had a delivery here. The overview shows those with deliveries that are not in the catalog.';

const ANOTHER = 'expected the new name, which is another than the former one';

const ALL = {
  subscriber: 'postcards',
  to: 'notifications',
  topics: [
    {
      topic: 'payment.captured',
      waiting: 12,
      deadLettered: 2,
      duplicates: 0,
      moved: 14,
      dismissed: 0,
      left: 0,
    },
  ],
  duplicates: 0,
  moved: 14,
  dismissed: 0,
  left: 0,
};

const PREVIEW: Renamed = { ...ALL, topics: [{ ...ALL.topics[0]!, moved: 0, left: 14 }], moved: 0, left: 14 };

const parameters = { subscriber: shape.subscriberName.meta({ description: 'The former name.' }) };

const which = {
  to: z
    .preprocess((to) => to ?? '', shape.subscriberName)
    .meta({ type: 'string', description: 'The new name.' }),
  topic: z
    .union([z.literal('').transform(() => null), topicText])
    .nullish()
    .transform((named) => named ?? null)
    .meta({ description: 'Only this topic. Without it, all topics of the former name.' }),
};

const PATH = `${HOME}/subscribers/{subscriber}/rename`;

export const showRenamePreview = operatorRoute({
  id: 'previewRename',
  path: PATH,
  scope: 'event-bus:read',
  summary: 'Preview a rename',
  parameters,
  query: z.object(which),
  answer: renamed,
  problems: ['validation_failed', 'still_listed', 'no_such_subscription'],
  unknown: UNKNOWN,
  examples: {
    'all-topics': {
      summary: 'What a former name would hand over',
      parameters: { subscriber: 'postcards', to: 'notifications' },
      answer: answered(PREVIEW),
    },
    nobody: {
      summary: 'A subscriber that never had a delivery',
      parameters: { subscriber: 'telegrams', to: 'notifications' },
      answer: refused('not_found', { detail: UNKNOWN }),
    },
  },
  handle: async ({ parameters: { subscriber }, query: { to, topic }, bus }) =>
    await preview(await bus.database(), { from: subscriber, to, topic }),
  page: renamePage,
});

const body = z
  .object({
    ...which,
    reason: shape.requiredReason,
    dryRun: z.boolean().default(false).meta({ description: 'Only counts what would be moved.' }),
    dismissDuplicates: z.boolean().default(false).meta({
      description:
        'Agrees that deliveries of events which the new name has already are dismissed. Refused without it where there are any.',
    }),
    expectedCount: z
      .int()
      .nonnegative()
      .optional()
      .meta({ description: 'Refuses the rename unless exactly this many stand under the former name.' }),
    next: shape.optionalReason.shape.next,
  })
  .meta({ required: ['to', 'reason'] });

export const rename = action({
  name: 'rename',
  id: 'renameSubscriber',
  path: PATH,
  summary: 'Hand what waits for a subscriber’s former name over to its new one',
  description:
    'For a subscriber that the catalog lists under another name. What waits and what died goes to the new name, in order and before anything newer; delivery ids change, because they name the lane. What was delivered stays under the former name.',
  parameters,
  body,
  readForm: (content) => readConfirmedForm(content, asForm(body)),
  dryRun: asForm(body.extend({ reason: z.string().default('') })),
  answer: renamed,
  problems: [
    'still_listed',
    'no_such_subscription',
    'duplicates',
    'count_changed',
    'not_confirmed',
    'under_way',
  ],
  unknown: UNKNOWN,
  examples: {
    'still-listed': {
      summary: 'A subscriber that the catalog lists',
      parameters: { subscriber: 'accounting' },
      json: { to: 'ledger', topic: 'payment.dispute.closed', reason: 'Accounting is the ledger now.' },
      answer: refused('still_listed', {
        detail:
          'This release’s catalog lists accounting for payment.dispute.closed. Rename it from a release whose catalog does not.',
      }),
    },
    preview: {
      summary: 'What would be moved, without moving it',
      parameters: { subscriber: 'postcards' },
      json: { to: 'notifications', reason: 'Postcards are notifications now.', dryRun: true },
      answer: answered(PREVIEW),
    },
    'no-such-subscription': {
      summary: 'To a name that the catalog does not list for its topics',
      parameters: { subscriber: 'faxes' },
      json: { to: 'calendar', reason: 'Faxes are the calendar’s now.' },
      answer: refused('no_such_subscription', {
        detail:
          'This release’s catalog does not list calendar for payment.captured. List it there and deploy first, or retire faxes there. Nothing was renamed.',
      }),
    },
    'all-topics': {
      summary: 'All topics of a former name',
      parameters: { subscriber: 'postcards' },
      json: { to: 'notifications', reason: 'Postcards are notifications now.' },
      answer: answered(ALL),
    },
    nobody: {
      summary: 'A subscriber that never had a delivery',
      parameters: { subscriber: 'telegrams' },
      json: { to: 'notifications', reason: 'Telegrams are notifications now.' },
      answer: refused('not_found', { detail: UNKNOWN }),
    },
    'to-the-same-name': {
      summary: 'To the name that it has',
      parameters: { subscriber: 'postcards' },
      json: { to: 'postcards', reason: 'Postcards are postcards.' },
      answer: invalid('to', 'invalid_type', ANOTHER),
    },
    'without-a-reason': {
      summary: 'Without a reason',
      parameters: { subscriber: 'postcards' },
      json: { to: 'notifications' },
      answer: NO_REASON,
    },
  },
  handle: async ({ parameters: { subscriber }, body: asked, operator, bus }) => {
    const { to, topic, reason, dryRun, dismissDuplicates: dismissesDuplicates, expectedCount } = asked;
    const db = await bus.database();
    const names = { from: subscriber, to, topic };
    if (dryRun || expectedCount !== undefined) {
      const found = await preview(db, names);
      if (dryRun || found === null) return found;
      requireCount(found.left, expectedCount, 'renamed');
    }
    const how = { by: operator.subject, reason, dismissesDuplicates, until: Date.now() + LONGEST_MS };
    return await orProblem(db, names, async () => await moveName(db, names, how));
  },
  actedOn: {
    /** From the former name to the new one. */
    shape: z.object({
      subscriber: shape.subscriberName,
      to: shape.subscriberName,
      topic: topicText.nullable().default(null),
    }),
    of: ({ subscriber, to }, { body: { topic } }) => ({ subscriber, to, topic }),
  },
  home: ({ to }) => subscriberPath(to),
  page: renamePage,
  follow: followRename,
});

async function preview(db: Database, names: Rename): Promise<Renamed | null> {
  return await orProblem(db, names, async () => await previewRename(db, names));
}

/** @throws Problem 400 or 409 where the names cannot be renamed. */
async function orProblem(
  db: Database,
  { from: subscriber, to, topic }: Rename,
  act: () => ReturnType<typeof moveName>,
): Promise<Renamed | null> {
  if (to === subscriber) requireValid({ to }, z.object({ to: z.never(ANOTHER) }));
  await requireKnownTopic(db, topic ?? undefined);
  try {
    const topics = await act();
    return topics && { subscriber, to, topics: [...topics], ...totalOf(topics) };
  } catch (error) {
    throw problemOf(error);
  }
}

function totalOf(topics: readonly RenamedTopic[]) {
  const sum = (of: 'duplicates' | 'moved' | 'dismissed' | 'left') =>
    topics.reduce((total, one) => total + one[of], 0);
  return {
    duplicates: sum('duplicates'),
    moved: sum('moved'),
    dismissed: sum('dismissed'),
    left: sum('left'),
  };
}

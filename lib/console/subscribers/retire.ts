import * as z from 'zod';

import { requireUnlisted, retire as deleteAll } from '../../bus/deliveries/operations/retire.ts';
import { hasLeft, standingUnder } from '../../bus/deliveries/operations/standing.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf } from '../../platform/db/statement.ts';
import { answered, refused } from '../../platform/http/operation.ts';
import { action, NO_REASON } from '../kit/action.ts';
import { readConfirmedForm, requireCount } from '../kit/confirmed-form.ts';
import { asForm } from '../kit/form-request.ts';
import { requireKnownTopic } from '../kit/known-names.ts';
import { HOME } from '../kit/links.ts';
import { problemOf } from '../kit/problem-of.ts';
import { topicText } from '../kit/replay-request.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { followRetirement } from './follow-leaving.ts';
import { retirePage } from './leaving-pages.ts';
import { retired, retirement } from './leaving-views.ts';
import type { Retirement } from './leaving-views.ts';

const UNKNOWN =
  'Nothing is left of this subscriber, or it never had a delivery. The overview shows those with deliveries that are not in the catalog.';

const PREVIEW: Retirement = {
  subscriber: 'postcards',
  topic: null,
  topics: [{ topic: 'payment.captured', waiting: 10, deadLettered: 2 }],
  matched: 12,
};

const parameters = { subscriber: shape.subscriberName };

const ofTopic = {
  topic: z
    .union([z.literal('').transform(() => null), topicText])
    .nullish()
    .transform((named) => named ?? null)
    .meta({ description: 'Only this topic. Without it, all topics of the subscriber.' }),
};

const PATH = `${HOME}/subscribers/{subscriber}/retire`;

export const showRetirePreview = operatorRoute({
  id: 'previewRetirement',
  path: PATH,
  scope: 'event-bus:read',
  summary: 'Preview the retirement of a subscriber',
  parameters,
  query: z.object(ofTopic),
  answer: retirement,
  problems: ['validation_failed', 'still_listed'],
  unknown: UNKNOWN,
  examples: {
    'all-topics': {
      summary: 'All topics of a subscriber that the catalog does not list',
      parameters: { subscriber: 'postcards' },
      answer: answered(PREVIEW),
    },
    nobody: {
      summary: 'A subscriber without any delivery',
      parameters: { subscriber: 'telegrams' },
      answer: refused('not_found', { detail: UNKNOWN }),
    },
  },
  handle: async ({ parameters: { subscriber }, query: { topic }, bus }) =>
    await preview(await bus.database(), { subscriber, topic }),
  page: retirePage,
});

const body = z
  .object({
    ...ofTopic,
    reason: shape.requiredReason,
    dryRun: z.boolean().default(false).meta({ description: 'Only counts what would be dismissed.' }),
    expectedCount: z
      .int()
      .nonnegative()
      .optional()
      .meta({ description: 'Refuses the retirement unless exactly this many would be dismissed.' }),
    next: shape.optionalReason.shape.next,
  })
  .meta(shape.needsReason);

export const retire = action({
  name: 'retire',
  id: 'retireSubscriber',
  path: PATH,
  summary: 'Retire a subscriber that the catalog no longer lists',
  description:
    'Dismisses what waits for it and what died, and deletes what is recorded of its deliveries. Afterwards the subscription shows up nowhere but in the operator log.',
  parameters,
  body,
  readForm: (content) => readConfirmedForm(content, asForm(body)),
  dryRun: asForm(body.extend({ reason: z.string().default('') })),
  answer: z.union([retired, retirement]).meta({
    description: 'The retired subscriptions; for a dry run, what would be dismissed.',
  }),
  problems: ['still_listed', 'count_changed', 'not_confirmed', 'under_way'],
  unknown: UNKNOWN,
  examples: {
    'still-listed': {
      summary: 'A subscriber that the catalog lists',
      parameters: { subscriber: 'accounting' },
      json: { topic: 'payment.dispute.closed', reason: 'Replaced by the ledger.' },
      answer: refused('still_listed', {
        detail:
          'This release’s catalog lists accounting for payment.dispute.closed. Retire it from a release whose catalog does not.',
      }),
    },
    'all-topics': {
      summary: 'All topics of a subscriber that the catalog does not list',
      parameters: { subscriber: 'postcards' },
      json: { reason: 'Postcards are history.' },
      answer: answered({ subscriber: 'postcards', topics: ['payment.captured'], dismissed: 12 }),
    },
    nobody: {
      summary: 'A subscriber without any delivery',
      parameters: { subscriber: 'telegrams' },
      json: { reason: 'Telegrams are history.' },
      answer: refused('not_found', { detail: UNKNOWN }),
    },
    'without-a-reason': {
      summary: 'Without a reason',
      parameters: { subscriber: 'postcards' },
      json: {},
      answer: NO_REASON,
    },
  },
  handle: async ({ parameters: { subscriber }, body: asked, operator, bus }) => {
    const { topic, reason, dryRun, expectedCount } = asked;
    const db = await bus.database();
    const which = { subscriber, topic };
    if (dryRun || expectedCount !== undefined) {
      const found = await preview(db, which);
      if (dryRun || found === null) return found;
      requireCount(found.matched, expectedCount, 'retired');
    }
    const how = { by: operator.subject, reason };
    const done = await orProblem(db, topic, async () => await deleteAll(db, which, how));
    return done && { subscriber, ...done, topics: [...done.topics] };
  },
  actedOn: {
    shape: z.object({ subscriber: shape.subscriberName, topic: topicText.nullable().default(null) }),
    of: ({ subscriber }, { body: { topic } }) => ({ subscriber, topic }),
  },
  follow: followRetirement,
  page: (view, context) => {
    if (!('matched' in view)) throw new TypeError('only a dry run is drawn as a page');
    return retirePage(view, context);
  },
});

/** Counts what a retirement would dismiss. @returns null when there is nothing of it. */
async function preview(
  db: Database,
  which: { readonly subscriber: string; readonly topic: string | null },
): Promise<Retirement | null> {
  const { subscriber, topic } = which;
  const found = await orProblem(db, topic, async () => {
    requireUnlisted(subscriber, topic);
    return await standingUnder(driverOf(db), subscriber, topic);
  });
  if (found.length === 0 && !(await hasLeft(driverOf(db), subscriber, 'retire'))) return null;
  const matched = found.reduce((sum, { waiting, deadLettered }) => sum + waiting + deadLettered, 0);
  return { ...which, topics: [...found], matched };
}

/** @throws Problem 400 or 409 where the subscriber cannot be retired. */
async function orProblem<Done>(db: Database, topic: string | null, act: () => Promise<Done>): Promise<Done> {
  await requireKnownTopic(db, topic ?? undefined);
  try {
    return await act();
  } catch (error) {
    throw problemOf(error);
  }
}

import * as z from 'zod';

import { NotActedOn } from '../../bus/deliveries/operations/first-of-lane.ts';
import { NewNameNotListed, rename } from '../../bus/deliveries/operations/rename.ts';
import { topicText } from '../kit/replay-request.ts';
import { StillListed } from '../../bus/deliveries/operations/retire.ts';
import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { SECOND } from '../../platform/time.ts';
import { actionRoute, NO_REASON } from '../kit/action-route.ts';
import { requireKnownTopic } from '../kit/known-names.ts';
import { subscriberPath } from '../kit/links.ts';
import * as shape from '../kit/shapes.ts';

/** A function lives 30 seconds. */
const LONGEST_MS = 20 * SECOND;

const UNKNOWN =
  'Unknown subscriber: it never had a delivery here. The overview shows those with deliveries that are not in the catalog.';

const ANOTHER = 'expected the new name, which is another than the former one';

const renamed = z
  .object({
    subscriber: z.string().meta({ description: 'The former name.' }),
    to: z.string(),
    topics: z.array(
      z.object({
        topic: shape.topic,
        waiting: shape.count.meta({ description: 'Deliveries that waited, with events not fanned out yet.' }),
        deadLettered: shape.count.meta({ description: 'Dead letters.' }),
        moved: shape.count,
        dismissed: shape.count.meta({
          description: 'Deliveries of events that the new name has a delivery of already.',
        }),
        left: shape.count,
      }),
    ),
    moved: shape.count,
    dismissed: shape.count,
    left: shape.count.meta({
      description:
        'What there was no time for, or has come meanwhile. Send the request again; the cron continues too.',
    }),
  })
  .meta({
    id: 'Renamed',
    description: 'What stood under the former name when the request came, by topic, and what became of it.',
  });

const ALL = {
  subscriber: 'postcards',
  to: 'notifications',
  topics: [{ topic: 'payment.captured', waiting: 12, deadLettered: 2, moved: 14, dismissed: 0, left: 0 }],
  moved: 14,
  dismissed: 0,
  left: 0,
};

export const renameSubscriber = actionRoute('rename', {
  id: 'renameSubscriber',
  summary: 'Hand what waits for a subscriber’s former name over to its new one',
  description:
    'For a subscriber that the catalog lists under another name. What waits and what died goes to the new name, in order and before anything newer; delivery ids change, because they name the lane. What was delivered stays under the former name.',
  parameters: { subscriber: shape.subscriberName.meta({ description: 'The former name.' }) },
  body: z
    .object({
      to: z
        .preprocess((to) => to ?? '', shape.subscriberName)
        .meta({ type: 'string', description: 'The new name.' }),
      topic: z
        .union([z.literal('').transform(() => null), topicText])
        .nullish()
        .transform((named) => named ?? null)
        .meta({ description: 'Only this topic. Without it, all topics of the former name.' }),
      reason: shape.requiredReason,
      dryRun: z.boolean().default(false).meta({ description: 'Only counts what would be moved.' }),
      next: shape.optionalReason.shape.next,
    })
    .meta({ required: ['to', 'reason'] }),
  answer: renamed,
  problems: ['still_listed', 'no_such_subscription', 'under_way'],
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
      answer: answered({
        ...ALL,
        topics: [{ ...ALL.topics[0]!, moved: 0, left: 14 }],
        moved: 0,
        left: 14,
      }),
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
  handle: async ({ parameters: { subscriber }, body: { to, topic, reason, dryRun }, operator, bus }) => {
    if (to === subscriber) requireValid({ to }, z.object({ to: z.never(ANOTHER) }));
    const db = await bus.database();
    await requireKnownTopic(db, topic ?? undefined);
    const how = { by: operator.subject, reason, dryRun, until: Date.now() + LONGEST_MS };
    try {
      const topics = await rename(db, { from: subscriber, to, topic }, how);
      return topics && { subscriber, to, topics: [...topics], ...totalOf(topics) };
    } catch (error) {
      const isRefusal =
        error instanceof StillListed || error instanceof NewNameNotListed || error instanceof NotActedOn;
      if (!isRefusal) throw error;
      throw new Problem(error.code, { detail: error.message, cause: error });
    }
  },
  actedOn: ({ subscriber, to }, { body: { topic } }) => ({ subscriber, to, topic }),
  home: ({ to }) => subscriberPath(to),
});

function totalOf(topics: readonly { moved: number; dismissed: number; left: number }[]) {
  const sum = (of: 'moved' | 'dismissed' | 'left') => topics.reduce((total, one) => total + one[of], 0);
  return { moved: sum('moved'), dismissed: sum('dismissed'), left: sum('left') };
}

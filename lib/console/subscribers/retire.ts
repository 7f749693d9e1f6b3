import * as z from 'zod';

import { requireUnlisted, retire as deleteAll } from '../../bus/deliveries/operations/retire.ts';
import { hasLeft, standingUnder } from '../../bus/deliveries/operations/standing.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { answered, refused } from '../../platform/http/operation.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { NO_REASON } from '../kit/action.ts';
import { requireCount } from '../kit/confirmed-form.ts';
import { followedPath, follower } from '../kit/following.ts';
import type { Followed, Following } from '../kit/following.ts';
import { requireKnownTopic } from '../kit/known-names.ts';
import { HOME, subscriberPath } from '../kit/links.ts';
import { operation } from '../kit/operation.ts';
import type { Plan } from '../kit/plan.ts';
import { problemOf } from '../kit/problem-of.ts';
import { topicText } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { joinNames, quantity } from '../kit/words.ts';
import { standing, standingList } from './standing-under.ts';

const UNKNOWN =
  'Nothing is left of this subscriber, or it never had a delivery. The overview shows those with deliveries that are not in the catalog.';

const retirement = z
  .object({
    subscriber: z.string(),
    topic: shape.topic.nullable().meta({ description: 'Only this topic; null: all of them.' }),
    topics: z.array(standing),
    matched: shape.count,
  })
  .meta({ id: 'Retirement', description: 'What a retirement would dismiss. Nothing was dismissed.' });
type Retirement = z.output<typeof retirement>;

const retired = z
  .object({
    subscriber: z.string(),
    topics: z.array(shape.topic),
    dismissed: shape.count.meta({ description: 'Deliveries that waited, and dead letters.' }),
  })
  .meta({ id: 'Retired', description: 'The retired subscriptions.' });

const body = z
  .object({
    topic: z
      .union([z.literal('').transform(() => null), topicText])
      .nullish()
      .transform((named) => named ?? null)
      .meta({ description: 'Only this topic. Without it, all topics of the subscriber.' }),
    reason: shape.requiredReason,
    dryRun: z.boolean().default(false).meta({ description: 'Only counts what would be dismissed.' }),
    expectedCount: z
      .int()
      .nonnegative()
      .optional()
      .meta({ description: 'Refuses the retirement unless exactly this many would be dismissed.' }),
  })
  .meta(shape.needsReason);

export const retire = operation({
  verb: 'retire',
  section: 'subscribers',
  path: `${HOME}/subscribers/{subscriber}/retire`,
  parameters: { subscriber: shape.subscriberName },
  unknown: UNKNOWN,
  body,
  asked: body.extend({ reason: z.string().default('') }),
  preview: retirement,
  answer: z.union([retired, retirement]).meta({
    description: 'The retired subscriptions; for a dry run, what would be dismissed.',
  }),
  shown: {
    id: 'previewRetirement',
    summary: 'Preview the retirement of a subscriber',
    problems: ['validation_failed', 'still_listed'],
    examples: {
      'all-topics': {
        summary: 'All topics of a subscriber that the catalog does not list',
        parameters: { subscriber: 'postcards' },
        answer: answered(),
      },
      nobody: {
        summary: 'A subscriber without any delivery',
        parameters: { subscriber: 'telegrams' },
        answer: refused('not_found', { detail: UNKNOWN }),
      },
    },
  },
  begun: {
    id: 'retireSubscriber',
    summary: 'Retire a subscriber that the catalog no longer lists',
    description:
      'Dismisses what waits for it and what died, and deletes what is recorded of its deliveries. Afterwards the subscription shows up nowhere but in the operator log.',
    problems: ['still_listed', 'count_changed', 'not_confirmed', 'under_way'],
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
        answer: answered(),
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
  },
  find: async ({ bus, body: { topic } }, { subscriber }) =>
    await preview(await bus.database(), { subscriber, topic }),
  async act({ bus, operator, body: { topic, reason, expectedCount } }, { subscriber }) {
    const db = await bus.database();
    const which = { subscriber, topic };
    if (expectedCount !== undefined) {
      const found = await preview(db, which);
      if (found === null) return null;
      requireCount(found.matched, expectedCount, 'retired');
    }
    const how = { by: operator.subject, reason };
    const done = await orProblem(db, topic, async () => await deleteAll(db, which, how));
    return done && { subscriber, ...done, topics: [...done.topics] };
  },
  says: retirePlan,
  reason: ['replaced by accounting in March'],
  leads: ({ subscriber }, { topic }) => followedPath(HOME, 'retire', { subscriber, topic }),
  command: {
    summary: 'retire a subscriber that the catalog no longer lists',
    usage: [
      'retire <subscriber> [--topic <topic>] --reason <text> [--yes]',
      'retire <subscriber> [--topic <topic>] --dry-run',
    ],
    notes: [
      'Dismisses what waits for it and what died, and deletes what is recorded of its deliveries. Afterwards the subscription shows up nowhere but in the operator log. Refused while the catalog of the server’s release lists it.',
      'First shows what it would dismiss, then asks for confirmation. Without a terminal it needs --yes. If the number has changed since, it dismisses nothing and exits with 1.',
    ],
    examples: [
      ['retire postcards --reason "postcards are history"', 'all its topics, after confirmation'],
      ['retire postcards --dry-run', 'a preview only'],
    ],
    takes: [['subscriber', 'The subscriber is missing.']],
    options: { topic: { value: '<topic>', help: 'only this topic; by default every topic' } },
    nothing: 'Nothing was retired.',
    example: 'retire postcards --reason "postcards are history"',
    isReasonNeeded: true,
    done: ({ dismissed }, { what }) => ({
      words: `Retired ${what}: ${quantity(dismissed, 'delivery')} dismissed.`,
      isCounted: true,
    }),
  },
});

function retirePlan({ subscriber, topic, topics, matched }: Retirement): Plan {
  return {
    what: `${subscriber} from ${joinNames(topics.map((one) => one.topic))}`,
    matched,
    lead: 'Nothing has been dismissed yet. This is what the retirement would do.',
    facts: [
      ['Deletes', 'What is recorded of its deliveries on these topics. Their events stay'],
      ['Ends', 'Its pauses, backfills and outage on these topics'],
      ['Then', `Nothing shows ${subscriber} on these topics any more; the operator log keeps it`],
    ],
    list: standingList(topics),
    request: { topic, expectedCount: matched },
    button: matched === 0 ? 'Retire' : `Retire, and dismiss ${quantity(matched, 'delivery')}`,
    cancel: subscriberPath(subscriber),
    nothing: topics.length === 0 && {
      title: `Nothing is left of ${subscriber}`,
      text: ['No delivery waits for it. A pause, a backfill or an outage of it ends when it is retired.'],
      action: [HOME, 'Overview'],
      isBegun: true,
    },
  };
}

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

export const retirementFollowed: Followed = {
  name: 'retire',
  follow: follower(
    z.object({ subscriber: shape.subscriberName, topic: topicText.nullable().default(null) }),
    followRetirement,
  ),
};

/** Says that a subscriber was retired, and whether it has got deliveries since. */
async function followRetirement(
  db: Database,
  { subscriber, topic }: { readonly subscriber: string; readonly topic: string | null },
): Promise<Following | null> {
  const [found] = await run<{ now: number; since: number; left: number }>(driverOf(db), {
    text: RETIRED,
    values: [subscriber, topic ?? ''],
  });
  if (!found) return null;
  const { left } = found;
  const rest = left > 0 && ` ${quantity(left, 'delivery')} came since: retire it again.`;
  return {
    tone: left > 0 ? 'fail' : 'ok',
    words: html`<b>Retired ${subscriber}${topic !== null && ` on ${topic}`}.</b> What waited for it is
      dismissed.${rest}`,
    isSettled: true,
    since: instantOf(found.since),
    now: instantOf(found.now),
  };
}

// The operators' log is kept permanently and read from its end: an hour of it is short. A retirement of all topics logs each.
const RETIRED = `
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    (extract(epoch from max(at)) * 1000)::float8 as since,
    (
      select coalesce(sum(pending + failing + dead_lettered), 0)::float8 from subscription_counts
      where subscriber = $1::text and $2::text in ('', topic)
    ) as left
  from operator_actions
  where at > clock_timestamp() - interval '1 hour' and action = 'retire' and subscriber = $1::text
    and $2::text in ('', coalesce(topic, ''))
  having count(*) > 0`;

import * as z from 'zod';

import { subscribersOf } from '../../bus/catalog/catalog.ts';
import { backfill, BackfillUnderWay, stopBackfill } from '../../bus/deliveries/operations/backfill.ts';
import { CountChanged } from '../../bus/deliveries/refusals.ts';
import type { Database } from '../../platform/db/connect.ts';
import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { nearest } from '../../platform/nearest.ts';
import { SECOND } from '../../platform/time.ts';
import { requireKnownTopic } from '../kit/known-names.ts';
import { backfilledPath, backfillPath } from '../kit/links.ts';
import { operation } from '../kit/operation.ts';
import { showRoute, stopRoute } from '../kit/operation-routes.ts';
import type { Begun } from '../kit/operation-routes.ts';
import type { Bus } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { count, quantity } from '../kit/words.ts';
import { backfillWords } from './follow.ts';
import { BACKFILL, backfillPage } from './page.ts';
import { backfillPlan } from './plan.ts';
import { backfillPreview, readPreview } from './preview.ts';
import type { BackfillPreview } from './preview.ts';
import { backfillProgress, readBackfill, readRequest } from './read.ts';
import type { BackfillProgress } from './read.ts';
import { backfillRequest, SINCE, sinceOf } from './request.ts';
import type { ParsedBackfillRequest } from './request.ts';

const NOT_LISTED =
  'This release’s catalog does not list leger for payment.captured. Did you mean ledger? Nothing was written.';

const EXAMPLE = 'backfill ledger --topic payment.captured --since 30d';

const backfilled = z
  .object({
    backfillId: z.uuid(),
    topic: shape.topic,
    subscriber: z.string(),
    since: shape.instant,
    matched: shape.count.meta({ description: 'Deliveries that were missing.' }),
    written: shape.count.meta({ description: 'Written so far. The cron continues the rest.' }),
    perMinute: z.int().positive().nullable(),
    endedAt: shape.instant.nullable().meta({ description: 'Null while it is under way.' }),
  })
  .meta({ id: 'Backfilled', description: 'The backfill as far as it is.' });

/** The answer to `dryRun`: the preview, and the fields that the backfill would have answered. */
const dryRun = backfillPreview
  .extend({ backfillId: z.null(), written: z.literal(0) })
  .meta({ id: 'BackfillDryRun', description: 'The answer to `dryRun: true`.' });

const BEGUN: Begun<BackfillProgress> = {
  kind: BACKFILL,
  answer: backfillProgress,
  read: async (bus, backfillId) => await readBackfill(await bus.database(), bus.subscribers(), backfillId),
};

const showBackfill = showRoute(
  BEGUN,
  'See one backfill, how far it is, and the states of its deliveries now',
  backfillPage,
);

const stopBackfillRoute = stopRoute(BEGUN, {
  summary: 'Stop a backfill that is under way',
  description:
    'What it wrote is delivered; the rest stays unwritten, and newer events no longer wait for it. One that has ended stays as it is.',
  reason: 'The ledger can’t keep up.',
  stop: async (bus, id, by, reason) => await stopBackfill(await bus.database(), id, by, reason),
});

export const backfilling = operation({
  verb: 'backfill',
  section: 'backfills',
  path: backfillPath({}),
  body: backfillRequest,
  preview: z.union([backfillPreview, dryRun]),
  answer: z
    .union([backfilled, dryRun])
    .meta({ description: 'The backfill; for a dry run, what it would have done.' }),
  shown: {
    id: 'previewBackfill',
    summary: 'Preview a backfill',
    problems: ['validation_failed', 'no_such_subscription'],
    examples: {
      'of-a-month': {
        summary: 'What one subscriber lacks of the last 30 days',
        parameters: { topic: 'payment.captured', subscriber: 'ledger', since: '30d', perMinute: 1000 },
        answer: answered(),
      },
      'not-listed': {
        summary: 'A subscriber that the catalog does not list for the topic',
        parameters: { topic: 'payment.captured', subscriber: 'leger', since: '30d' },
        answer: refused('no_such_subscription', { detail: NOT_LISTED }),
      },
      'without-a-beginning': {
        summary: 'Without saying how far back',
        parameters: { topic: 'payment.captured', subscriber: 'ledger' },
        answer: invalid('since', 'invalid_type', SINCE),
      },
    },
  },
  begun: {
    id: 'backfill',
    summary: 'Write the deliveries of older events that a subscriber lacks',
    description:
      'For a subscriber that is new on a topic: each retained event since then gets the delivery it lacks, once, in the order of creation. The subscription’s newer events wait meanwhile, and producers go on. The operator, the time and the reason are recorded.',
    links: {
      progress: {
        operationId: 'readBackfill',
        description: 'How far it is.',
        parameters: { backfillId: '$response.body#/backfillId' },
      },
      stop: {
        operationId: 'stopBackfill',
        description: 'Stop it.',
        parameters: { backfillId: '$response.body#/backfillId' },
        requestBody: { reason: 'The ledger can’t keep up.' },
      },
    },
    problems: ['not_confirmed', 'count_changed', 'no_such_subscription', 'backfill_under_way'],
    examples: {
      counted: {
        summary: 'A dry run',
        json: { topic: 'payment.captured', subscriber: 'ledger', since: '30d', dryRun: true },
        answer: answered(),
      },
      'another-number': {
        summary: 'The number of missing deliveries differs from the expected one',
        json: { topic: 'support.incident.declared', subscriber: 'audit', since: '30d', expectedCount: 1000 },
        answer: refused('count_changed', { detail: countWords(0, 1000) }),
      },
      'of-a-month': {
        summary: 'What one subscriber lacks of the last 30 days',
        json: {
          topic: 'payment.captured',
          subscriber: 'ledger',
          since: '30d',
          perMinute: 1000,
          reason: 'The ledger is new on this topic.',
        },
        answer: answered(),
      },
      'not-listed': {
        summary: 'A subscriber that the catalog does not list for the topic',
        json: { topic: 'payment.captured', subscriber: 'leger', since: '30d' },
        answer: refused('no_such_subscription', { detail: NOT_LISTED }),
      },
      'in-the-future': {
        summary: 'A beginning in the future',
        json: { topic: 'payment.captured', subscriber: 'ledger', since: '2999-01-01T00:00:00Z' },
        answer: invalid('since', 'custom', SINCE),
      },
    },
  },
  async find({ bus, body }) {
    const found = await preview(bus, body);
    return body.dryRun ? { ...found, backfillId: null, written: 0 as const } : found;
  },
  act: async ({ bus, body, operator }) => await start(await bus.database(), body, operator.subject),
  says: backfillPlan,
  reason: ['the ledger is new on this topic'],
  leads: ({ backfillId }) => backfilledPath(backfillId),
  followed: {
    route: showBackfill,
    pathOf: backfilledPath,
    idOf: ({ backfillId, matched }) => (matched === 0 ? null : backfillId),
    says: (now) => {
      const { pending, failing, deadLettered } = now.progress;
      return {
        words: backfillWords(now),
        isUnderWay: now.endedAt === null,
        isOver: now.endedAt !== null && pending + failing === 0,
        isGood: now.stopped === null && deadLettered === 0,
      };
    },
    stop: {
      route: stopBackfillRoute,
      help: 'stop a backfill; what it has not written stays unwritten',
      example: 'the ledger can’t keep up',
    },
  },
  command: {
    summary: 'hand a new subscriber the older events of a topic',
    usage: [
      'backfill <subscriber> --topic <topic> --since <30d> [--wait] [options]',
      'backfill --stop <backfillId> --reason <text>',
    ],
    notes: [
      'Writes the deliveries that retained events lack for the subscription, once, in the order of creation. Its newer events wait meanwhile, and producers go on.',
      'First shows a preview, then asks for confirmation. Without a terminal it needs --yes. If the number has changed since the preview, it writes nothing and exits with 1.',
    ],
    examples: [
      [EXAMPLE, 'the last 30 days, after confirmation'],
      [`${EXAMPLE} --dry-run`, 'a preview only'],
      [`${EXAMPLE} --per-minute 1000 --wait`, 'paced, and wait until all are delivered'],
      ['backfill --stop 019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21 --reason "too fast"', 'write no more'],
    ],
    takes: [['subscriber', 'The subscriber is missing.']],
    options: {
      topic: { value: '<topic>', help: 'the topic that the subscriber is new on' },
      since: {
        value: '<30d>',
        help: 'events recorded within this time, such as 30d or 12h, or since an instant such as 2026-11-01T08:00:00Z',
      },
      perMinute: {
        name: 'per-minute',
        value: '<number>',
        range: [1, 100_000],
        help: 'write at most this many a minute (default: all at once)',
      },
    },
    needs: { topic: '--topic is missing.', since: '--since is missing.' },
    nothing: 'Nothing was written.',
    example: EXAMPLE,
    isReasonNeeded: false,
    counted: (matched) => `${count(matched)} are missing`,
    done: ({ written, matched }) => ({
      isUnderWay: written < matched,
      words:
        written >= matched
          ? `Backfilled ${quantity(written, 'delivery')}.`
          : `The backfill is under way: ${count(written)} of ${count(matched)} written.`,
    }),
  },
});

export const backfillRoutes = [...backfilling.routes, showBackfill, stopBackfillRoute];

/** A function has half a minute. The cron continues what takes longer. */
const LONGEST_MS = 20 * SECOND;

async function preview(bus: Bus, request: ParsedBackfillRequest): Promise<BackfillPreview> {
  const db = await bus.database();
  await requireKnownTopic(db, request.topic);
  requireListed(request);
  return await readPreview(db, bus.subscribers(), request);
}

/** @throws Problem 400 for an unknown topic; 409 for a subscription that can't be backfilled now. */
async function start(db: Database, request: ParsedBackfillRequest, by: string) {
  const { topic, subscriber, perMinute, reason, expectedCount, backfillId } = request;
  await requireKnownTopic(db, topic);
  requireListed(request);
  try {
    const { id } = await backfill(db, {
      topic,
      subscriber,
      since: sinceOf(request.since, Date.now()),
      by,
      reason: reason ?? null,
      perMinute: perMinute ?? null,
      until: Date.now() + LONGEST_MS,
      ...(backfillId !== undefined && { id: backfillId }),
      ...(expectedCount !== undefined && { expectedCount }),
    });
    // A request that is sent again is answered with what the first one asked for.
    return { backfillId: id, ...(await readRequest(db, id)) };
  } catch (error) {
    if (error instanceof CountChanged)
      throw new Problem(error.code, { detail: countWords(error.matched, error.expected), cause: error });
    if (error instanceof BackfillUnderWay)
      throw new Problem(error.code, { detail: underWayWords(request, error.id), cause: error });
    throw error;
  }
}

function underWayWords({ topic, subscriber }: ParsedBackfillRequest, id: string): string {
  return `A backfill of ${topic} to ${subscriber} is under way: ${id}. Wait until it has ended, or stop it. Nothing was written.`;
}

function countWords(matched: number, expected: number): string {
  const what = matched === 1 ? 'delivery is' : 'deliveries are';
  return `Nothing was written: ${matched} ${what} missing, not ${expected}. Preview the backfill again.`;
}

/** @throws Problem 409 `no_such_subscription` with the name that was probably meant. */
function requireListed({ topic, subscriber }: ParsedBackfillRequest): void {
  const listed = subscribersOf(topic);
  if (listed.includes(subscriber)) return;
  const meant = nearest(subscriber, listed);
  const advice =
    listed.length === 0
      ? 'Backfill from a release that lists it.'
      : meant === null
        ? `It lists ${listed.join(', ')}. Backfill from a release that lists it.`
        : `Did you mean ${meant}?`;
  throw new Problem('no_such_subscription', {
    detail: `This release’s catalog does not list ${subscriber} for ${topic}. ${advice} Nothing was written.`,
  });
}

import { backfill, stopBackfill } from '../../bus/deliveries/operations/backfill.ts';
import { SECOND } from '../../platform/time.ts';
import { knownIn } from '../kit/known-names.ts';
import { backfilledPath, backfillPath } from '../kit/links.ts';
import { operation } from '../kit/operation.ts';
import { count, quantity } from '../kit/words.ts';
import { backfillPlan, backfillPreview, backfillRequest, readPreview, sinceOf } from './plan.ts';
import { backfillFar, backfillProgress, readBackfill } from './progress.ts';

/** A function has half a minute. The cron continues what takes longer. */
const LONGEST_MS = 20 * SECOND;

export const backfilling = operation({
  verb: 'backfill',
  past: 'backfilled',
  noun: 'backfill',
  section: 'replays',
  path: backfillPath({}),
  id: 'backfill',
  previewId: 'previewBackfill',
  summary: 'hand a new subscriber the older events of a topic',
  description:
    'Each retained event since then gets the delivery that the subscriber lacks, once, in the order of creation. The subscription’s newer events wait meanwhile, and producers go on. The operator, the time and the reason are recorded.',
  problems: ['not_confirmed', 'count_changed', 'no_such_subscription', 'backfill_under_way'],
  body: backfillRequest,
  preview: backfillPreview,
  answer: backfillProgress,
  find: async ({ bus, body }) => await readPreview(await knownIn(bus, body), bus.subscribers(), body),
  async act({
    bus,
    by,
    reason,
    body: { topic, subscriber, since, perMinute = null, expectedCount, backfillId },
  }) {
    const db = await knownIn(bus, { topic, subscriber });
    const { id } = await backfill(db, {
      topic,
      subscriber,
      since: sinceOf(since, Date.now()),
      by,
      reason: reason || null,
      perMinute,
      until: Date.now() + LONGEST_MS,
      ...(backfillId !== undefined && { id: backfillId }),
      ...(expectedCount !== undefined && { expectedCount }),
    });
    // A request that is sent again is answered with what the first one asked for.
    return await readBackfill(db, id);
  },
  says: backfillPlan,
  reason: ['the ledger is new on this topic'],
  done: ({ written, matched }) =>
    `Backfilled ${written < matched ? `${count(written)} of ` : ''}${quantity(matched, 'delivery')}.`,
  followed: {
    pathOf: backfilledPath,
    answer: backfillProgress,
    read: async (bus, id) => await readBackfill(await bus.database(), id),
    says: backfillFar,
    stop: {
      description:
        'What it wrote is delivered. The rest stays unwritten, newer events no longer wait for it, and a later backfill can’t put it before those. One that has ended stays as it is.',
      example: 'the ledger can’t keep up',
      act: async (bus, id, { by, reason }) => await stopBackfill(await bus.database(), id, by, reason),
    },
  },
  command: {
    examples: [
      ['backfill ledger --topic payment.captured --since 30d', 'the last 30 days, after confirmation'],
      [
        'backfill ledger --topic payment.captured --since 30d --per-minute 1000 --wait',
        'paced, and wait until all are delivered',
      ],
      ['backfill --stop 019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21 --reason "too fast"', 'write no more'],
    ],
    takes: { subscriber: 'subscriber' },
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
    needs: ['topic', 'since'],
  },
});

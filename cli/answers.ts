import { z } from 'zod';

import type { DeadLetter } from '../lib/operators/dead-letters/delivery.ts';
import type { DeadLetterPage } from '../lib/operators/dead-letters/read.ts';
import type { Examination } from '../lib/operators/doctor/read.ts';
import type { Overview } from '../lib/operators/overview/read.ts';
import type { ReplayPreview } from '../lib/operators/replays/preview.ts';
import type { Replay } from '../lib/deliveries/replay.ts';
import type { TopicView } from '../lib/operators/lanes/read.ts';
import type { RelayReport } from '../lib/relay/relay.ts';

// What the endpoints answer, of it what is shown. Typed by what they are made of, so that neither changes alone.
const text = z.string();
const number = z.number();
const textOrNull = z.string().nullable();
const numberOrNull = z.number().nullable();

const counts = z.object({ pending: number, failing: number, deadLettered: number });
const hours = z.object({ delivered: z.array(number), deadLettered: z.array(number) });
const lastError = z.object({ kind: text, message: text });
const state = z.enum(['pending', 'failing', 'dead_lettered', 'delivered']);

const topicOverview = counts.extend({
  topic: text,
  producer: text,
  inCatalog: z.boolean(),
  oldestDueAgeSeconds: numberOrNull,
  nextRetryAt: textOrNull,
  awaitingFanOut: number,
  heldBackSince: textOrNull,
  hours,
  subscribers: z.array(
    counts.extend({
      subscriber: text,
      inCatalog: z.boolean(),
      neededVersion: numberOrNull,
      attached: z.boolean(),
      paused: z.boolean(),
      pause: z.object({ topic: textOrNull, pausedAt: text, pausedBy: text, reason: text }).nullable(),
      oldestDueAgeSeconds: numberOrNull,
      nextRetryAt: textOrNull,
      lastDeliveredAt: textOrNull,
      lastFailedAt: textOrNull,
    }),
  ),
});

export const overview: z.ZodType<Omit<Overview, 'worstError'>> = z.object({
  generatedAt: text,
  relay: z.object({
    state: z.enum(['running', 'stalled', 'never_run']),
    lastPassAt: textOrNull,
    runsHere: z.boolean(),
    lagSeconds: number,
  }),
  totals: counts.extend({ deliveries: counts, deliveredLast24h: number, firstAttemptLast24h: number }),
  hours,
  topics: z.array(topicOverview),
});

const errorGroup = lastError.extend({
  group: text,
  topic: text,
  subscriber: text,
  count: number,
  firstAt: text,
  lastAt: text,
  isStillFailing: z.boolean(),
});

const deadLetterItem = z.object({
  deliveryId: text,
  eventId: text,
  topic: text,
  subscriber: text,
  subject: textOrNull,
  createdAt: text,
  deadLetteredAt: text,
  failures: number,
  replays: number,
  lastError: lastError.extend({ group: text }),
});

export const deadLetterPage: z.ZodType<Omit<DeadLetterPage, 'filters' | 'previousCursor'>> = z.object({
  generatedAt: text,
  items: z.array(deadLetterItem),
  total: number,
  totalInAll: number,
  groups: z.array(errorGroup),
  nextCursor: textOrNull,
  failing: number,
  nextRetryAt: textOrNull,
});

export const deadLetter: z.ZodType<Omit<DeadLetter, 'payload'>> = deadLetterItem.extend({
  generatedAt: text,
  state,
  deadLetteredAt: textOrNull,
  deliveredAt: textOrNull,
  nextAttemptAt: textOrNull,
  lastError: lastError.extend({ group: textOrNull }).nullable(),
  orderingKey: text,
  event: z.object({
    state,
    producer: text,
    version: number,
    correlationId: textOrNull,
    causationId: textOrNull,
    traceparent: textOrNull,
  }),
  attempts: z.array(
    z.union([
      z.object({
        outcome: z.enum(['failed', 'waited', 'delivered']),
        attempt: number,
        at: text,
        durationMs: number,
        error: lastError.nullable(),
        waitedMs: numberOrNull,
      }),
      z.object({
        outcome: z.enum(['replayed', 'hurried', 'skipped']),
        at: text,
        by: text,
        reason: textOrNull,
        replayId: textOrNull,
      }),
    ]),
  ),
  hidden: z.array(z.object({ pointer: text, kind: textOrNull })),
  isValid: z.boolean(),
  isRevealed: z.boolean(),
  siblings: z.array(z.object({ subscriber: text, state })),
});

/** The payload apart: it is shown as it is. */
export const payloadOf = z.object({ payload: z.unknown() });

export const preview: z.ZodType<ReplayPreview> = z.object({
  generatedAt: text,
  request: z.record(z.string(), z.unknown()),
  replayId: text,
  topic: textOrNull,
  matched: number,
  isAll: z.boolean(),
  error: lastError.nullable(),
  createdFrom: textOrNull,
  createdTo: textOrNull,
  endedFrom: textOrNull,
  endedTo: textOrNull,
  subscriptions: z.array(
    z.object({
      topic: text,
      subscriber: text,
      count: number,
      others: number,
      attached: z.boolean(),
      paused: z.boolean(),
      isStillFailing: z.boolean(),
      lastDeliveredAt: textOrNull,
      lastFailedAt: textOrNull,
      lastError: lastError.nullable(),
    }),
  ),
  leftOut: z.array(z.object({ topic: text, subscriber: text, count: number })),
});

export const replay: z.ZodType<Replay> = z.object({
  replayId: textOrNull,
  topic: textOrNull,
  since: textOrNull,
  matched: number,
  replayed: number,
});

export const examination: z.ZodType<Examination> = z.object({
  checked: z.array(text),
  findings: z.array(z.object({ promise: text, what: text, count: number, examples: z.array(text) })),
  events: number,
});

export const topicView: z.ZodType<Pick<TopicView, 'heldLanes'>> = z.object({
  heldLanes: z.array(
    z.object({
      subscriber: text,
      orderingKey: text,
      deliveryId: text,
      eventId: text,
      subject: textOrNull,
      attempts: number,
      nextAttemptAt: text,
      lastError: lastError.nullable(),
      behind: number,
      isMoreBehind: z.boolean(),
    }),
  ),
});

/** What a run of the cron did. */
export type CronReport = RelayReport & {
  /** The days of which the daily clock struck. */
  readonly struck: readonly string[];
  readonly pruned: { readonly events: number; readonly deliveries: number };
  /** What was to be done beside relaying and failed. */
  readonly undone: readonly string[];
};

export const cronReport: z.ZodType<CronReport> = z.object({
  fannedOut: number,
  delivered: number,
  failed: number,
  waited: number,
  deadLettered: number,
  leasesLost: number,
  ticks: number,
  nextRetryAt: numberOrNull,
  struck: z.array(text),
  pruned: z.object({ events: number, deliveries: number }),
  undone: z.array(text),
});

/** RFC 9457, of it what is told. */
export const problem = z.object({
  status: number,
  code: text,
  detail: text.default(''),
  requestId: text.optional(),
  issues: z.array(z.object({ path: text, message: text })).default([]),
});
export type Problem = z.output<typeof problem>;

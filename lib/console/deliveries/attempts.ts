import * as z from 'zod';

import * as shape from '../kit/shapes.ts';
import type { PastAttempt } from '../../../drizzle/schema.ts';
import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import { ABSENT_KINDS } from '../../bus/deliveries/outage.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { instantOf } from '../../platform/time.ts';
import type { State } from '../kit/shapes.ts';
import { computed, field, instant } from '../kit/fields.ts';

/** Fields that a list and the delivery's own page both show. */
export const deliveryFields = {
  deliveryId: field(
    z.string().describe('The id of a delivery: `<eventId>.<subscriber>`.'),
    `event_id || '.' || lanes.subscriber`,
  ),
  eventId: field(z.uuid(), 'event_id'),
  topic: field(shape.topic, 'lanes.topic'),
  subscriber: field(z.string(), 'lanes.subscriber'),
  subject: computed(
    z.string().nullable().describe('The subject of the event, for example `booking bkg_48213`.'),
  ),
  createdAt: instant('created_at'),
  failures: field(shape.count.describe('Failed attempts since the first or the last replay.'), 'attempts'),
  replays: field(shape.count, 'replays'),
};

/** Of a dead letter. */
export const isHalting = z
  .boolean()
  .describe('Whether its lane, or its ordering key, waits until it is replayed or dismissed.');

/** What such a dead letter does, as a predicate. */
export const HALTS = 'halts its lane until it is replayed or dismissed';

const answer = z
  .string()
  .nullable()
  .describe(
    'What a component elsewhere said when it refused the event: the first 2 KB of its answer as text, without personal data. Null without an answer.',
  );

/** The error of one attempt. */
export const attemptError = shape.lastError.extend({ answer });
export type AttemptError = z.output<typeof attemptError>;

const handled = z
  .object({
    outcome: z.enum(['failed', 'waited', 'delivered']),
    attempt: shape.count.describe('Counted from 1, and from 1 again after a replay.'),
    at: shape.instant,
    durationMs: z.number().nonnegative(),
    error: attemptError.nullable(),
    isProbe: z.boolean().describe('Whether it was a probe that failed, which uses up no attempt.'),
    waitedMs: shape.count.nullable().describe('Milliseconds until the next attempt was due.'),
  })
  .meta({ id: 'Attempt' });

const intervention = z
  .object({
    outcome: z
      .enum([
        'replayed',
        'retried_early',
        'probed',
        'skipped',
        'dismissed',
        'backfilled',
        'renamed',
        'returned',
      ])
      .describe(
        '`probed`: the attempt after it costs nothing if it fails. `returned`: the failed attempts before it are not counted, because an outage of the subscriber caused them.',
      ),
    at: shape.instant,
    by: z.string(),
    reason: z.string().nullable(),
    replayId: z.string().nullable(),
  })
  .meta({
    id: 'OperatorAct',
    description: 'An operator’s action on a delivery, or one of the bus itself (`by` is `postbud`).',
  });

/** One attempt of a delivery, or one operator’s action on it. */
export const historyEntry = z.union([handled, intervention]);

export type Attempt = z.output<typeof historyEntry>;
/** An attempt, and no operator's action. */
export type Try = z.output<typeof handled>;

/** The columns of a delivery that its attempts are read from. Times are epoch milliseconds. */
export interface FoundAttempts {
  readonly state: State;
  readonly attempts: number;
  readonly attempted_at: number | null;
  readonly duration_ms: number | null;
  readonly next_attempt_at: number | null;
  readonly log: readonly PastAttempt[] | null;
}

/**
 * Lists a delivery's attempts and the operators' actions on it, oldest first.
 *
 * @param texts personal data to mask in messages; null masks nothing.
 */
export function attemptsOf(found: FoundAttempts, texts: readonly string[] | null): Attempt[] {
  const log = [...(found.log ?? []), ...settledAttempt(found)];
  return log.map((entry, index): Attempt => {
    const at = new Date(entry.at);
    const { outcome } = entry;
    if (isIntervention(outcome)) {
      const { by = '', reason = null, replayId = null } = entry;
      return { outcome, at: at.toISOString(), by, reason, replayId };
    }
    const { kind, message = '', answer: said, durationMs, attempt } = entry;
    const masked = (text: string) => (texts ? maskPersonalData(text, texts) : text);
    const next = log[index + 1];
    const isGivenUp = next?.outcome === 'dismissed' || next?.outcome === 'skipped';
    const nextAtMs = next && !isGivenUp ? Date.parse(next.at) : found.next_attempt_at;
    return {
      outcome,
      attempt,
      at: at.toISOString(),
      durationMs,
      isProbe:
        outcome === 'waited' &&
        kind !== undefined &&
        (ABSENT_KINDS.includes(kind) || (log[index - 1]?.outcome === 'probed' && !ASKED_KINDS.has(kind))),
      error:
        kind === undefined
          ? null
          : {
              kind: masked(kind),
              message: masked(message),
              // Masked when it was read, too: an answer to a batch may repeat other events of it.
              answer: said === undefined ? null : masked(said),
            },
      waitedMs: nextAtMs === null ? null : Math.max(0, Math.round(nextAtMs - at.getTime() - durationMs)),
    };
  });
}

function isIntervention(
  outcome: PastAttempt['outcome'],
): outcome is z.output<typeof intervention>['outcome'] {
  return intervention.shape.outcome.safeParse(outcome).success;
}

/** The errors of a handler that asked to wait, which it may also when it is probed. */
const ASKED_KINDS: ReadonlySet<string> = new Set(['retry_after', NEWER_VERSION]);

/** Finds the error of the last attempt that failed; null where none did. */
export function lastErrorOf(attempts: readonly Attempt[]): AttemptError | null {
  const last = attempts.findLast((one) => 'error' in one && one.error !== null);
  return last && 'error' in last ? last.error : null;
}

/** The attempt that delivered has columns of its own. */
function settledAttempt({
  state,
  attempts,
  attempted_at: at,
  duration_ms: durationMs,
}: FoundAttempts): PastAttempt[] {
  if (state !== 'delivered' || at === null) return [];
  return [{ outcome: 'delivered', attempt: attempts, at: instantOf(at), durationMs: durationMs ?? 0 }];
}

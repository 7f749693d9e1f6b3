import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import type { PastAttempt } from '../../../drizzle/schema.ts';
import { ABSENT_KINDS } from '../../bus/deliveries/outage.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { hidePersonalData, maskPersonalData, personalTexts } from '../../platform/masking/personal.ts';
import { inSchemaOrder } from '../../platform/masking/schema-order.ts';
import { subjectOf } from '../../platform/masking/subject.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import * as shape from '../kit/shapes.ts';
import type { State } from '../kit/shapes.ts';
import { HALT, halts, haltsOf } from './halts.ts';
import type { FoundHalt } from './halts.ts';
import { deliveryFields } from './read.ts';
import { reveal, revealOf } from './reveal.ts';
import type { Reveal } from './reveal.ts';

const answer = z.string().nullable().meta({
  description:
    'What a component elsewhere said when it refused the event: the first 2 KB of its answer as text, without personal data. Null without an answer.',
});

/** The error of one attempt. */
export const attemptError = shape.lastError.extend({ answer });
export type AttemptError = z.output<typeof attemptError>;

const handled = z
  .object({
    outcome: z.enum(['failed', 'waited', 'delivered']),
    attempt: shape.count.meta({ description: 'Counted from 1, and from 1 again after a replay.' }),
    at: shape.instant,
    durationMs: z.number().nonnegative(),
    error: attemptError.nullable(),
    waitedMs: shape.count.nullable().meta({ description: 'Milliseconds until the next attempt was due.' }),
  })
  .meta({ id: 'Attempt' });

const intervention = z
  .object({
    outcome: z
      .enum(['replayed', 'retried_early', 'skipped', 'dismissed', 'backfilled', 'renamed', 'returned'])
      .meta({
        description:
          '`returned`: the failed attempts before it are not counted, because an outage of the subscriber caused them.',
      }),
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

/** A payload, and what of it is hidden. */
export const payloadFields = {
  payload: z
    .unknown()
    .meta({ description: 'The event’s payload. Personal data is hidden unless it was revealed.' }),
  hidden: z
    .array(z.object({ pointer: z.string(), kind: z.string().nullable() }))
    .meta({ description: 'JSON Pointers of the hidden values, with the kind of each.' }),
  isValid: z.boolean().meta({
    description:
      'Whether the payload fits this release’s schema. In a newer version, or a topic that the catalog does not have, all values are hidden.',
  }),
  isRevealed: z.boolean(),
  reveal: reveal.nullable(),
  erasedAt: shape.instant.nullable().meta({
    description:
      'When the personal data in it was overwritten, at an operator’s word. Nothing brings it back.',
  }),
};

export const deadLetter = z
  .object({
    ...deliveryFields,
    generatedAt: shape.instant,
    state: shape.state,
    deadLetteredAt: shape.instant.nullable(),
    dismissedAt: shape.instant.nullable().meta({
      description:
        'When an operator dismissed the dead letter. It is in no count and no list; it can still be replayed.',
    }),
    deliveredAt: shape.instant.nullable(),
    nextAttemptAt: shape.instant.nullable(),
    halts: halts.nullable().meta({ description: 'Null where its lane goes on.' }),
    lastError: shape.lastError.extend({ group: shape.errorGroup.nullable() }).nullable(),
    orderingKey: z.string().meta({ description: 'Empty if the whole topic is one lane.' }),
    event: z.object({
      state: shape.state,
      producer: z.string(),
      version: z.int().positive(),
      correlationId: z.string().nullable(),
      causationId: z.string().nullable(),
      traceparent: z.string().nullable(),
    }),
    attempts: z.array(historyEntry).meta({ description: 'Oldest first.' }),
    ...payloadFields,
    siblings: z
      .array(z.object({ deliveryId: deliveryFields.deliveryId, subscriber: z.string(), state: shape.state }))
      .meta({ description: 'The same event’s deliveries to its other subscribers.' }),
  })
  .meta({
    id: 'DeadLetter',
    description: 'A delivery that is or was a dead letter, with its history.',
  });
export type DeadLetter = z.output<typeof deadLetter>;
export type Attempt = DeadLetter['attempts'][number];
/** An attempt, and no operator's action. */
export type Try = z.output<typeof handled>;

/**
 * Reads one delivery, with its personal data hidden unless it was revealed.
 *
 * @param deliveryId its id as lists show it.
 * @returns null for an unknown delivery.
 */
export async function readDeadLetter(
  db: Database,
  deliveryId: string,
  revealed: Reveal | null = null,
): Promise<DeadLetter | null> {
  const [row] = await run<{ found: Found }>(driverOf(db), { text: READ, values: deliveryId.split('-') });
  return row ? deadLetterOf(deliveryId, row.found, revealed) : null;
}

/**
 * Reads one delivery with its personal data, and records the operator and the reason in the same statement.
 *
 * @returns null, and records nothing, for an unknown delivery.
 */
export async function revealDeadLetter(
  db: Database,
  deliveryId: string,
  by: string,
  reason: string,
): Promise<DeadLetter | null> {
  const revealId = uuidv7();
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: REVEAL,
    values: [...deliveryId.split('-'), revealId, by, reason],
  });
  if (!row) return null;
  return deadLetterOf(deliveryId, row.found, revealOf(revealId, row.found.now));
}

/** The columns of a delivery that its attempts are read from. Times are epoch milliseconds. */
export interface FoundAttempts {
  readonly state: State;
  readonly attempts: number;
  readonly attempted_at: number | null;
  readonly duration_ms: number | null;
  readonly next_attempt_at: number | null;
  readonly log: readonly PastAttempt[] | null;
}

/** The statement's result. */
interface Found extends FoundAttempts {
  readonly now: number;
  readonly delivered_at: number | null;
  readonly dead_lettered_at: number | null;
  readonly dismissed_at: number | null;
  readonly replays: number;
  readonly error_group: string | null;
  readonly topic: string;
  readonly subscriber: string;
  readonly ordering_key: string;
  readonly event_id: string;
  readonly event_state: State;
  readonly payload: unknown;
  readonly version: number;
  readonly producer: string;
  readonly created_at: number;
  readonly correlation_id: string | null;
  readonly causation_id: string | null;
  readonly traceparent: string | null;
  readonly erased_at: number | null;
  readonly halts: FoundHalt | null;
  readonly siblings:
    | readonly { readonly deliveryId: string; readonly subscriber: string; readonly state: State }[]
    | null;
}

function deadLetterOf(deliveryId: string, found: Found, revealed: Reveal | null): DeadLetter {
  const isRevealed = revealed !== null;
  const { topic, payload, version } = found;
  const shown = hidePersonalData(topic, payload, version);
  const texts = isRevealed ? null : personalTexts(topic, payload, version);
  const attempts = attemptsOf(found, texts);
  const error = lastErrorOf(attempts);
  return {
    generatedAt: instantOf(found.now),
    deliveryId,
    eventId: found.event_id,
    topic,
    subscriber: found.subscriber,
    subject: subjectOf(topic, payload, version),
    createdAt: instantOf(found.created_at),
    state: found.state,
    deadLetteredAt: instantOrNull(found.dead_lettered_at),
    dismissedAt: instantOrNull(found.dismissed_at),
    deliveredAt: instantOrNull(found.delivered_at),
    nextAttemptAt: instantOrNull(found.next_attempt_at),
    halts: haltsOf(found.halts),
    failures: found.attempts,
    replays: found.replays,
    lastError: error && { kind: error.kind, message: error.message, group: found.error_group },
    orderingKey: found.ordering_key,
    event: {
      state: found.event_state,
      producer: found.producer,
      version,
      correlationId: found.correlation_id,
      causationId: found.causation_id,
      traceparent: found.traceparent,
    },
    attempts,
    payload: isRevealed ? inSchemaOrder(topic, payload, version) : shown.payload,
    hidden: [...shown.hidden],
    isValid: shown.isValid,
    isRevealed,
    reveal: revealed,
    erasedAt: instantOrNull(found.erased_at),
    siblings: [...(found.siblings ?? [])],
  };
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
    const isGivenUp = next?.outcome === 'dismissed';
    const nextAtMs = next && !isGivenUp ? Date.parse(next.at) : found.next_attempt_at;
    return {
      outcome,
      attempt,
      at: at.toISOString(),
      durationMs,
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

/** Whether an attempt found nobody there during an outage. It used up no attempt, like one whose handler asked to wait. */
export function isProbe({ outcome, error }: Try): boolean {
  return outcome === 'waited' && error !== null && ABSENT_KINDS.includes(error.kind);
}

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

// An event has the same position in the lanes of all its subscribers.
const READ = `
  select json_build_object(
    'now', extract(epoch from clock_timestamp()) * 1000, 'state', deliveries.state, 'attempts', attempts,
    'attempted_at', extract(epoch from attempted_at) * 1000, 'duration_ms', duration_ms,
    -- In an outage, not before the next probe.
    'next_attempt_at', extract(epoch from case when next_attempt_at is not null then greatest(next_attempt_at, (
      select next_probe_at from outages where outages.subscriber = lanes.subscriber and recovered_at is null
    )) end) * 1000,
    'delivered_at', extract(epoch from delivered_at) * 1000,
    'dead_lettered_at', extract(epoch from dead_lettered_at) * 1000,
    'dismissed_at', extract(epoch from dismissed_at) * 1000, 'replays', replays,
    'error_group', error_group, 'log', attempt_log, 'topic', lanes.topic, 'subscriber', lanes.subscriber,
    'ordering_key', events.ordering_key, 'event_id', event_id, 'event_state', events.state, 'payload', payload,
    'version', version, 'producer', producer, 'created_at', extract(epoch from created_at) * 1000,
    'correlation_id', correlation_id, 'causation_id', causation_id, 'traceparent', traceparent,
    'erased_at', extract(epoch from erased_at) * 1000,
    'halts', (
      select ${HALT}
      from halts
      where halts.lane_id = deliveries.lane_id and halts.position = deliveries.position
        and deliveries.state = 'dead_lettered' and deliveries.dismissed_at is null
    ),
    'siblings', (
      select json_agg(json_build_object('deliveryId', other.lane_id || '-' || other.position,
        'subscriber', other_lane.subscriber, 'state', other.state)
        order by other_lane.subscriber)
      from lanes as other_lane join deliveries as other
        on other.lane_id = other_lane.id and other.position = deliveries.position
      where other_lane.topic = lanes.topic and other_lane.id <> lanes.id and other_lane.home_id is null
        and (other_lane.ordering_key = events.ordering_key or other_lane.slot = postbud_slot(events.ordering_key))
    )
  ) as found
  from deliveries join lanes on lanes.id = lane_id join events on events.id = event_id
  where lane_id = $1::bigint and position = $2::bigint`;

const REVEAL = `
  with recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, delivery_id, reason)
    select $3::uuid, clock_timestamp(), $4::text, 'reveal', topic, subscriber, lane_id || '-' || position, $5::text
    from deliveries join lanes on lanes.id = lane_id where lane_id = $1::bigint and position = $2::bigint
  )
  ${READ}`;

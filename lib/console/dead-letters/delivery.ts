import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import type { PastAttempt } from '../../../drizzle/schema.ts';
import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import { ABSENT_KINDS } from '../../bus/deliveries/outage.ts';
import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { hidePersonalData, personalTexts } from '../../bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { inSchemaOrder } from '../../bus/catalog/schema-order.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import { instantOf } from '../../platform/time.ts';
import { computed, field, instant, instantOrNull, instantSql, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { allowedAttempts, maxAttemptsOf } from '../kit/handling.ts';
import * as shape from '../kit/shapes.ts';
import type { State } from '../kit/shapes.ts';
import { deliveryFields } from './fields.ts';
import { HALT, halts, haltsOf } from './halts.ts';
import type { FoundHalt } from './halts.ts';
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
    isProbe: z.boolean().meta({
      description: 'Whether it was a probe that failed, which uses up no attempt.',
    }),
    waitedMs: shape.count.nullable().meta({ description: 'Milliseconds until the next attempt was due.' }),
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
      .meta({
        description:
          '`probed`: the attempt after it costs nothing if it fails. `returned`: the failed attempts before it are not counted, because an outage of the subscriber caused them.',
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

const eventFields = {
  state: field(
    shape.state,
    `(
      select max(case when one.dismissed_at is null then one.state else 'delivered' end)
      from deliveries as one where one.event_id = $1::uuid
    )`,
  ),
  producer: field(z.string(), 'producer'),
  version: field(z.int().positive(), 'version'),
  correlationId: field(z.string().nullable(), 'correlation_id'),
  causationId: field(z.string().nullable(), 'causation_id'),
  traceparent: field(z.string().nullable(), 'traceparent'),
};

const siblingFields = {
  deliveryId: field(deliveryFields.deliveryId.shape, "other.event_id || '.' || other.subscriber"),
  subscriber: field(z.string(), 'other.subscriber'),
  state: field(shape.state, 'other.state'),
};

// In an outage, not before the next probe.
const NEXT_ATTEMPT_AT = `case when next_attempt_at is not null then greatest(next_attempt_at, (
    select next_probe_at from outages where outages.subscriber = lanes.subscriber
)) end`;

const deadLetterFields = {
  ...deliveryFields,
  generatedAt: instant('clock_timestamp()'),
  state: field(shape.state, 'deliveries.state'),
  failures: { ...deliveryFields.failures, sql: `attempts - (deliveries.state = 'delivered')::int` },
  maxAttempts: computed(allowedAttempts),
  deadLetteredAt: instantOrNull('dead_lettered_at'),
  dismissedAt: instantOrNull(
    'dismissed_at',
    'When an operator dismissed the dead letter. It is in no count and no list; it can still be replayed.',
  ),
  deliveredAt: instantOrNull('delivered_at'),
  nextAttemptAt: instantOrNull(NEXT_ATTEMPT_AT),
  halts: computed(halts.nullable().meta({ description: 'Null where its lane goes on.' })),
  lastError: computed(shape.lastError.extend({ group: shape.errorGroup.nullable() }).nullable()),
  orderingKey: field(
    z.string().meta({ description: 'Empty if the whole topic is one lane.' }),
    'events.ordering_key',
  ),
  event: field(z.object(shapesOf(eventFields)), jsonOf(eventFields)),
  attempts: computed(z.array(historyEntry).meta({ description: 'Oldest first.' })),
};

const siblings = field(
  z
    .array(z.object(shapesOf(siblingFields)))
    .meta({ description: 'The same event’s deliveries to its other subscribers.' }),
  `(
      select coalesce(json_agg(${jsonOf(siblingFields)} order by other.subscriber), '[]')
      from deliveries as other where other.event_id = $1::uuid and other.subscriber <> lanes.subscriber
    )`,
);

export const deadLetter = z
  .object({ ...shapesOf(deadLetterFields), ...payloadFields, siblings: siblings.shape })
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
 * @param attached tells how many attempts a delivery has.
 * @returns null for an unknown delivery.
 */
export async function readDeadLetter(
  db: Database,
  deliveryId: string,
  attached: readonly AttachedSubscriber[] = [],
  revealed: Reveal | null = null,
): Promise<DeadLetter | null> {
  const [row] = await run<{ found: Found }>(driverOf(db), { text: READ, values: namesIn(deliveryId) });
  return row ? deadLetterOf(row.found, attached, revealed) : null;
}

/**
 * Reads one delivery with its personal data, and records the operator and the reason in the same statement.
 *
 * @returns null, and records nothing, for an unknown delivery.
 */
export async function revealDeadLetter(
  db: Database,
  deliveryId: string,
  attached: readonly AttachedSubscriber[],
  { by, reason }: { readonly by: string; readonly reason: string },
): Promise<DeadLetter | null> {
  const revealId = uuidv7();
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: REVEAL,
    values: [...namesIn(deliveryId), revealId, by, reason],
  });
  if (!row) return null;
  return deadLetterOf(row.found, attached, revealOf(revealId, Date.parse(row.found.generatedAt)));
}

/** The parameters of `READ`. Those of a text that is not the id of a delivery find nothing. */
function namesIn(deliveryId: string): readonly [eventId: string | null, subscriber: string | null] {
  const names = readDeliveryId(deliveryId);
  return [names?.eventId ?? null, names?.subscriber ?? null];
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
interface Found extends Row<typeof deadLetterFields> {
  readonly siblings: DeadLetter['siblings'];
  readonly halt: FoundHalt | null;
  readonly tries: FoundAttempts;
  readonly errorGroup: string | null;
  readonly payload: unknown;
  readonly erasedAt: string | null;
}

function deadLetterOf(
  { halt, tries, errorGroup, payload, ...found }: Found,
  attached: readonly AttachedSubscriber[],
  revealed: Reveal | null,
): DeadLetter {
  const isRevealed = revealed !== null;
  const { topic, event } = found;
  const shown = hidePersonalData(topic, payload, event.version);
  const attempts = attemptsOf(tries, isRevealed ? null : personalTexts(topic, payload, event.version));
  const error = lastErrorOf(attempts);
  return {
    ...found,
    subject: subjectOf(topic, payload, event.version),
    maxAttempts: maxAttemptsOf(topic, found.subscriber, attached),
    halts: haltsOf(halt),
    lastError: error && { kind: error.kind, message: error.message, group: errorGroup },
    attempts,
    payload: isRevealed ? inSchemaOrder(topic, payload, event.version) : shown.payload,
    hidden: [...shown.hidden],
    isValid: shown.isValid,
    isRevealed,
    reveal: revealed,
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

const READ = `
  select ${jsonOf(
    { ...deadLetterFields, siblings },
    {
      halt: `(
      select ${HALT}
      from (select deliveries.*, lanes.stream, lanes.slot) as halts
      where halts.is_open and halts.dead_lettered_at is not null
    )`,
      tries: `json_build_object('state', deliveries.state, 'attempts', attempts,
      'attempted_at', extract(epoch from attempted_at) * 1000, 'duration_ms', duration_ms,
      'next_attempt_at', extract(epoch from ${NEXT_ATTEMPT_AT}) * 1000, 'log', attempt_log)`,
      errorGroup: 'error_group',
      payload: 'payload',
      erasedAt: instantSql('erased_at'),
    },
  )} as found
  from deliveries join lanes on lanes.id = deliveries.lane join events on events.id = event_id
  where event_id = $1::uuid and deliveries.subscriber = $2::text`;

const REVEAL = `
  with recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, delivery_id, reason)
    select $3::uuid, clock_timestamp(), $4::text, 'reveal', topic, subscriber, event_id || '.' || subscriber, $5::text
    from deliveries where event_id = $1::uuid and subscriber = $2::text
  )
  ${READ}`;

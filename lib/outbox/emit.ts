import { v7 as uuidv7 } from 'uuid';

import { catalog } from '../catalog/catalog.ts';
import type { PayloadInput, TopicName } from '../catalog/catalog.ts';
import { isTopicName } from '../catalog/catalog.ts';
import type { Topic } from '../catalog/topic.ts';
import { noteEmitted } from '../db/commits.ts';
import { run } from '../db/statement.ts';
import type { Executor, Statement } from '../db/statement.ts';
import { inSendSpan } from '../telemetry/event.ts';
import { traceparent } from '../telemetry/trace.ts';
import { InvalidPayload, UnknownTopic } from './errors.ts';

export interface EmitOptions {
  /**
   * Narrows the lane to the events of this topic with the same key: they are delivered in order among themselves and
   * do not wait for other keys. Without it the catalog's ordering key, else the whole topic.
   */
  readonly orderingKey?: string;
  /**
   * At most one event of this topic has this key: emitting it again gives the first one's id. Until that one is pruned,
   * 30 days after it was recorded at the earliest.
   */
  readonly dedupeKey?: string;
  /** Ties together all that happened because of one request or one event. */
  readonly correlationId?: string;
  /** The id of the event that made the producer emit this one. */
  readonly causationId?: string;
  /** W3C trace context of the producer's span; without it that of a span of this call, or of the request around it. */
  readonly traceparent?: string;
}

/**
 * Records an event in the outbox, in the caller's transaction and in one statement.
 *
 * Rolled back, nothing is left; committed, every subscriber that the catalog lists for the topic now will be handed it,
 * whatever release the relay is of. Emit after the business
 * rows that the event reports are written, so that events about one row come in the order of its changes. With one
 * business write, `db.transaction` takes three round trips: `begin` goes with the write, then this, then `commit`.
 *
 * @param tx the transaction that also writes the business data: Drizzle's, or the bare client of `pg`, Neon or PGlite.
 * @param payload checked against the topic's schema; what the schema makes of it is stored.
 * @returns the event's id, a UUIDv7; with a `dedupeKey` that was used before, the id of that event.
 * @throws InvalidPayload or UnknownTopic before the database is touched, so that the transaction can go on.
 */
export async function emit<Name extends TopicName>(
  tx: Executor,
  topic: Name,
  payload: PayloadInput<Name>,
  options: EmitOptions = {},
): Promise<{ id: string }> {
  const recorded = () => record(tx, outboxEvent(topic, payload, options));
  if (options.traceparent !== undefined) return await recorded();
  return await inSendSpan(topic, async (sent) => {
    const { id } = await recorded();
    sent(id);
    return { id };
  });
}

async function record(tx: Executor, event: OutboxEvent): Promise<{ id: string }> {
  const [row] = await run<{ id: string }>(tx, insertEvent(event));
  if (row) {
    noteEmitted();
    return { id: row.id };
  }
  // Looked up, not locked: a producer that is still open must not keep the relay from settling that event.
  const [earlier] = await run<{ id: string }>(tx, {
    text: 'select id::text from events where topic = $1::text and dedupe_key = $2::text',
    values: [event.topic, event.dedupeKey],
  });
  return { id: earlier!.id };
}

/** An event as it goes into the outbox. */
export interface OutboxEvent {
  readonly id: string;
  readonly topic: string;
  /** JSON text. */
  readonly payload: string;
  readonly version: number;
  readonly producer: string;
  /** Whom it is for: the topic's subscribers in this release's catalog. */
  readonly subscribers: readonly string[];
  readonly orderingKey: string;
  readonly dedupeKey: string | null;
  readonly correlationId: string;
  readonly causationId: string | null;
  readonly traceparent: string | null;
}

/**
 * Checks a payload and makes the event of it that `insertEvent` writes, as part of the trace that goes on here.
 *
 * @throws InvalidPayload, UnknownTopic
 */
export function outboxEvent(name: string, payload: unknown, options: EmitOptions = {}): OutboxEvent {
  if (!isTopicName(name)) throw new UnknownTopic(name);
  const topic: Topic = catalog[name];
  const parsed = topic.payload.safeParse(payload);
  if (!parsed.success) throw InvalidPayload.from(name, parsed.error);
  assertStorable(name, parsed.data, options);
  const id = uuidv7();
  return {
    id,
    topic: name,
    payload: JSON.stringify(parsed.data),
    version: topic.version,
    producer: topic.producer,
    subscribers: topic.subscribers,
    orderingKey: options.orderingKey ?? topic.orderingKey?.(parsed.data) ?? '',
    dedupeKey: options.dedupeKey ?? null,
    // An event that nothing caused begins a correlation of its own.
    correlationId: options.correlationId ?? options.causationId ?? id,
    causationId: options.causationId ?? null,
    traceparent: options.traceparent ?? traceparent(),
  };
}

/** The database refuses such text, and would take the caller's whole transaction with it. */
function assertStorable(topic: string, payload: unknown, options: EmitOptions): void {
  const issues = unstorable(payload, []);
  for (const [option, value] of Object.entries(options)) {
    // An index entry has room for some 2,700 bytes, and these are keys, not texts.
    if (typeof value === 'string' && value.length > 255)
      issues.push({ path: option, message: 'write 255 characters at most' });
    issues.push(...unstorable(value, [option]));
  }
  if (issues.length > 0) throw new InvalidPayload(topic, issues);
}

function unstorable(value: unknown, path: readonly string[]): { path: string; message: string }[] {
  if (typeof value === 'string') {
    if (value.isWellFormed() && !value.includes('\0')) return [];
    return [{ path: path.join('.'), message: 'leave out U+0000 and halves of surrogate pairs' }];
  }
  if (typeof value !== 'object' || value === null) return [];
  // The database reads JSON by recursion, and its stack is not ours to choose.
  if (path.length > 100) return [{ path: path.slice(0, 10).join('.'), message: 'nest 100 levels at most' }];
  return Object.entries(value).flatMap(([key, inner]) => [
    ...unstorable(key, [...path, key]),
    ...unstorable(inner, [...path, key]),
  ]);
}

/** First half of the key of the advisory locks that say "a transaction that emits to this topic is open". */
export const EMITTER_LOCKS = 0x9057;

function insertEvent(event: OutboxEvent): Statement {
  return { name: 'emit', text: INSERT_EVENT, values: eventValues(event) };
}

/**
 * The quiet fence's first half: the lock comes first and is shared, then the timestamp is read, both in this
 * statement. The lock goes with the transaction, once its rows can be seen. See lib/deliveries/fan-out.ts for the other half.
 */
const INSERT_EVENT = `
  with emitter_lock as materialized (
    select pg_advisory_xact_lock_shared(${EMITTER_LOCKS}, hashtext($2::text))
  ),
  ${insertEventFrom('emitter_lock')}
  select id::text from event`;

/**
 * CTEs that insert the event and its marker, once for each row of `source` (none or one).
 *
 * @param source a CTE that holds the emitter lock. Parameters 1 to 11 are `eventValues`, 6 a list of names as Postgres writes an array.
 */
export function insertEventFrom(source: string): string {
  return `
      event as (
        insert into events (id, topic, payload, version, producer, subscribers, open, ordering_key, dedupe_key,
          correlation_id, causation_id, traceparent, created_at)
        select $1::uuid, $2::text, $3::text::jsonb, $4::smallint, $5::text, $6::text::text[],
          cardinality($6::text::text[]), $7::text, $8::text, $9::text, $10::text, $11::text, clock_timestamp()
        from ${source}
        on conflict (topic, dedupe_key) where dedupe_key is not null do nothing
        returning id, topic, created_at, seq, ordering_key, open, subscribers
      ),
      marker as (
        insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, payload_bytes, subscribers)
        select topic, created_at, seq, id, ordering_key, open, octet_length($3::text), subscribers from event
      )`;
}

/** The parameters of `insertEventFrom`, `$1` first. */
export function eventValues(event: OutboxEvent): unknown[] {
  return [
    event.id,
    event.topic,
    event.payload,
    event.version,
    event.producer,
    // Components of the catalog, whose names are letters: nothing to be quoted.
    `{${event.subscribers.join(',')}}`,
    event.orderingKey,
    event.dedupeKey,
    event.correlationId,
    event.causationId,
    event.traceparent,
  ];
}

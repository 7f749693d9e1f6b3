import { v7 as uuidv7 } from 'uuid';

import type { Statement } from '../../platform/db/statement.ts';
import { noteUnstorable, unstorable } from '../../platform/storable.ts';
import { traceparent } from '../../platform/trace-context.ts';
import { catalog, isTopicName } from '../catalog/catalog.ts';
import type { Topic } from '../catalog/topic.ts';
import { EMITTER_LOCKS, EMITTING_BACKENDS } from './emitter-locks.ts';
import { InvalidPayload, UnknownTopic } from './errors.ts';
import { dueMsOf, readDue } from './due.ts';
import type { Due } from './due.ts';

export interface EmitOptions {
  /**
   * Narrows the order to the topic's events with the same key: they are delivered in order among themselves and do not
   * wait for other keys. By default the catalog's ordering key; if it has none, the whole topic is one order.
   */
  readonly orderingKey?: string;
  /**
   * Makes the event unique in its topic: emitting it again returns the id of the first. This holds until the first one is
   * pruned, at the earliest 30 days after it was recorded.
   */
  readonly dedupeKey?: string;
  /** The same for all events that one request or one event led to. */
  readonly correlationId?: string;
  /** The id of the event that caused this one. */
  readonly causationId?: string;
  /**
   * Sets a timer: the event happens then, and not now. An instant, as a date or as ISO 8601 with its offset; or a duration
   * such as `24h`. At most a year ahead; one that has passed is released at once.
   */
  readonly at?: Date | string;
  /** With `at`: names the timer in its topic, so that it can be moved by the same key, and cancelled by `cancelTimer`. */
  readonly timerKey?: string;
  /** W3C trace context of the producer's span. By default that of this call's own span, or of the current request. */
  readonly traceparent?: string;
}

/** An event as it is written to the outbox. */
export interface OutboxEvent {
  readonly id: string;
  readonly topic: string;
  /** JSON text. */
  readonly payload: string;
  readonly version: number;
  readonly producer: string;
  /** The topic's subscribers in this release's catalog. */
  readonly subscribers: readonly string[];
  readonly orderingKey: string;
  readonly dedupeKey: string | null;
  readonly correlationId: string;
  readonly causationId: string | null;
  readonly traceparent: string | null;
  /** Null where it happens now. */
  readonly timer: (Due & { readonly key: string | null }) | null;
}

/**
 * Checks a payload and makes the event that a `recordingStatement` records, as part of the current trace.
 *
 * @throws InvalidPayload, UnknownTopic
 */
export function outboxEvent(name: string, payload: unknown, options: EmitOptions = {}): OutboxEvent {
  if (!isTopicName(name)) throw new UnknownTopic(name);
  const topic: Topic = catalog[name];
  const parsed = topic.payload.safeParse(payload);
  if (!parsed.success) throw InvalidPayload.from(name, parsed.error);
  assertStorable(name, parsed.data, options);
  const timer = timerOf(name, options);
  // Ids sort by the time at which their events happen.
  const id = timer === null ? uuidv7() : uuidv7({ msecs: Math.max(dueMsOf(timer), Date.now()) });
  return {
    id,
    topic: name,
    payload: JSON.stringify(parsed.data),
    version: topic.version,
    producer: topic.producer,
    subscribers: topic.subscribers,
    orderingKey: options.orderingKey ?? topic.orderingKey?.(parsed.data) ?? '',
    dedupeKey: options.dedupeKey ?? null,
    // An event without a cause starts a correlation of its own.
    correlationId: options.correlationId ?? options.causationId ?? id,
    causationId: options.causationId ?? null,
    traceparent: options.traceparent ?? traceparent(),
    timer,
  };
}

function timerOf(topic: string, { at, timerKey }: EmitOptions): OutboxEvent['timer'] {
  const refuse = (path: string, message: string) => new InvalidPayload(topic, [{ path, message }]);
  if (at === undefined) {
    if (timerKey !== undefined) throw refuse('timerKey', 'expected with at');
    return null;
  }
  const due = readDue(at);
  if ('expected' in due) throw refuse('at', due.expected);
  return { ...due, key: timerKey ?? null };
}

/**
 * Refuses text that Postgres refuses, because its error would abort the caller's whole transaction, and numbers that JSON
 * does not have.
 *
 * @throws InvalidPayload
 */
export function assertStorable(topic: string, payload: unknown, options: EmitOptions): void {
  const issues = unstorable(payload);
  for (const [option, value] of Object.entries(options)) {
    // An index entry holds about 2,700 bytes, and these are keys, not prose.
    if (value === '' && KEYS.has(option))
      issues.push({ path: option, message: 'expected 1 to 255 characters' });
    if (typeof value === 'string' && value.length > 255)
      issues.push({ path: option, message: 'expected at most 255 characters' });
    noteUnstorable(value, [option], issues);
  }
  if (issues.length > 0) throw new InvalidPayload(topic, issues);
}

/** An empty one would be the same for all events of the topic. */
const KEYS: ReadonlySet<string> = new Set(['dedupeKey', 'timerKey']);

/** A statement that records an event together with rows of its caller. */
interface Recording {
  /** The statement's name, under which each connection prepares it once. */
  readonly name: string;
  /** The caller's common table expressions, each with a comma behind it. Their parameters are `$1`, `$2` and so on. */
  readonly ctes?: string;
  /** How many parameters they have. */
  readonly parameters?: number;
  /** Selects one row to record the event, or none to leave it out. */
  readonly from?: string;
  /** More terms of the first select, each with a comma before it. */
  readonly lock?: string;
  /** The final select, which returns the statement's rows. */
  readonly select: string;
}

/**
 * Makes a statement that records an event, in one round trip with what its caller writes.
 *
 * The first half of the quiet fence: the emitter lock comes first and is shared, then the timestamp is read, both in this
 * statement. It is never before the transaction began, even when the clock has stepped back. The lock goes with the
 * transaction, once its rows can be seen. The other half is `postbud_place_3` (drizzle/functions).
 *
 * @returns a function of the event and the values of the caller's parameters.
 */
export function recordingStatement({
  name,
  ctes = '',
  parameters = 0,
  from = '',
  lock = '',
  select,
}: Recording) {
  const at = (index: number) => `$${parameters + index}`;
  const text = `
    with ${ctes}
    emitter_lock as materialized (
      select pg_advisory_xact_lock_shared(${EMITTER_LOCKS}, hashtext(${at(2)}::text)),
        pg_advisory_xact_lock_shared(${EMITTING_BACKENDS}, pg_backend_pid()),
        -- Subscribers elsewhere are told what they can't forget: it is on disk by then.
        case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end ${lock} ${from}
    ),
    event as (
      insert into events (id, topic, payload, version, producer, subscribers, ordering_key, dedupe_key, correlation_id,
        causation_id, traceparent, created_at)
      select ${at(1)}::uuid, ${at(2)}::text, ${at(3)}::text::jsonb, ${at(4)}::smallint, ${at(5)}::text,
        ${at(11)}::text::text[], ${at(6)}::text, ${at(7)}::text, ${at(8)}::text,
        ${at(9)}::text, ${at(10)}::text, greatest(clock_timestamp(), now())
      from emitter_lock
      on conflict (topic, dedupe_key) where dedupe_key is not null do nothing
      returning id, topic, created_at, seq, ordering_key, version, subscribers
    ),
    marker as (
      insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, bytes, subscribers)
      select topic, created_at, seq, id, ordering_key, version, octet_length(${at(3)}::text), subscribers from event
    )
    ${select}`;
  return (event: OutboxEvent, values: readonly unknown[] = []): Statement => {
    // Names of the catalog's components are letters, which need no quotes in an array.
    const subscribers = `{${event.subscribers.join(',')}}`;
    return { name, text, values: [...values, ...eventValues(event), subscribers] };
  };
}

/** The parameters of an event, in the order in which statements number them. */
export function eventValues(event: OutboxEvent): unknown[] {
  return [
    event.id,
    event.topic,
    event.payload,
    event.version,
    event.producer,
    event.orderingKey,
    event.dedupeKey,
    event.correlationId,
    event.causationId,
    event.traceparent,
  ];
}

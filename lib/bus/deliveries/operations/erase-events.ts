import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';

import { and, eq, gt } from 'drizzle-orm';

import { erasedEvents } from '../../../../drizzle/schema.ts';
import type { PastAttempt } from '../../../../drizzle/schema.ts';
import type { Transaction } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { erasePersonalData, maskPersonalData } from '../../../platform/masking/personal.ts';
import { ERASED } from '../../catalog/marks.ts';

/** What one transaction overwrote. */
export interface ErasedChunk {
  /** The last event of the chunk; null where there are no more. */
  readonly last: string | null;
  readonly events: number;
  readonly deliveries: number;
  readonly notifications: number;
  readonly keysKept: number;
}

/** Events of one transaction. Their deliveries are found through block ranges, a few milliseconds for each event. */
const CHUNK = 200;

/**
 * Overwrites the personal data of the next events and timers that an erasure has found: in their payloads, in the
 * attempts of their deliveries and in their notifications. Ids, order, counts and states stay. To do so again changes nothing.
 *
 * What the payloads had is kept in `erased_events` until the erasure's end, for texts that are written elsewhere.
 *
 * @param names of the person that are personal data.
 * @param after the last event of the chunk before.
 */
export async function eraseEvents(
  tx: Transaction,
  erasureId: string,
  names: readonly string[],
  after: string,
): Promise<ErasedChunk> {
  const ids = await tx
    .select({ id: erasedEvents.eventId })
    .from(erasedEvents)
    .where(and(eq(erasedEvents.erasureId, erasureId), gt(erasedEvents.eventId, after)))
    .orderBy(erasedEvents.eventId)
    .limit(CHUNK);
  if (ids.length === 0) return { last: null, events: 0, deliveries: 0, notifications: 0, keysKept: 0 };
  const chunk = JSON.stringify(ids.map(({ id }) => id));
  // In the order of locks.ts: timers, lanes, deliveries, events. A timer that is released before its lock is an event after
  // it. A delivery that is fanned out from here on is handed over erased,
  // or its relay is waited for.
  const timers = await run<FoundEvent>(tx, { text: LOCK_TIMERS, values: [erasureId, chunk] });
  const places = await run<Place>(tx, { text: PLACES, values: [chunk] });
  const placed = JSON.stringify(places);
  await run(tx, { text: LOCK_LANES, values: [placed] });
  const deliveries = await run<FoundDelivery>(tx, { text: LOCK_DELIVERIES, values: [placed] });
  const events = await run<FoundEvent>(tx, { text: LOCK_EVENTS, values: [erasureId, chunk] });

  const erased = events.map((event) => erase(event, erasureId, names));
  const erasedTimers = timers.map((timer) => erase(timer, erasureId, names));
  const textsOf = new Map(erased.map(({ id, texts }) => [id, texts]));
  const overwritten = deliveries.flatMap(({ event_id: eventId, attempt_log: log, ...place }) => {
    const attempts = log.map((entry) => eraseAttempt(entry, [...names, ...(textsOf.get(eventId) ?? [])]));
    return isDeepStrictEqual(attempts, log) ? [] : [{ ...place, attempt_log: attempts }];
  });
  if (overwritten.length > 0) await run(tx, { text: WRITE_ATTEMPTS, values: [JSON.stringify(overwritten)] });
  const changed = erased.filter(({ isChanged }) => isChanged);
  if (changed.length > 0) await run(tx, { text: WRITE_EVENTS, values: [erasureId, JSON.stringify(changed)] });
  const changedTimers = erasedTimers.filter(({ isChanged }) => isChanged);
  if (changedTimers.length > 0)
    await run(tx, { text: WRITE_TIMERS, values: [erasureId, JSON.stringify(changedTimers)] });
  const rekeyed = erased.filter(({ pseudonym }) => pseudonym !== null);
  if (rekeyed.length > 0) await run(tx, { text: WRITE_KEYS, values: [placed, JSON.stringify(rekeyed)] });
  const [forgotten] = await run<{ count: number }>(tx, { text: FORGET_ADDRESSES, values: [chunk] });
  return {
    last: ids.length < CHUNK ? null : ids.at(-1)!.id,
    events: changed.length + changedTimers.length,
    deliveries: overwritten.length,
    notifications: forgotten!.count,
    keysKept: [...erased, ...erasedTimers].filter(({ isKeyKept }) => isKeyKept).length,
  };
}

interface Place {
  readonly lane_id: string;
  readonly position: string;
  readonly lane_key: string | null;
  readonly event_id: string;
}

interface FoundDelivery extends Omit<Place, 'lane_key'> {
  readonly attempt_log: readonly PastAttempt[];
}

interface FoundEvent {
  readonly id: string;
  readonly topic: string;
  readonly version: number;
  readonly payload: unknown;
  readonly ordering_key: string;
  readonly dedupe_key: string | null;
  readonly correlation_id: string | null;
  /** Of a timer. */
  readonly timer_key: string | null;
  /** Whether deliveries or a halted lane depend on its ordering key. */
  readonly is_bound: boolean;
  /** Found by an earlier pass of this erasure. */
  readonly texts: readonly string[];
}

function erase(event: FoundEvent, erasureId: string, names: readonly string[]) {
  const { payload, texts: own } = erasePersonalData(event.topic, event.payload, event.version);
  const texts = [...new Set([...event.texts, ...own])];
  const holds = (key: string | null) => key !== null && holdsOne(key, [...names, ...texts]);
  const isKeyPersonal = holds(event.ordering_key) || holds(event.timer_key);
  const dedupeKey = holds(event.dedupe_key) ? `${ERASED} ${event.id}` : event.dedupe_key;
  const correlationId = holds(event.correlation_id) ? event.id : event.correlation_id;
  const isSame = isDeepStrictEqual(payload, event.payload);
  return {
    id: event.id,
    payload,
    texts,
    dedupe_key: dedupeKey,
    correlation_id: correlationId,
    isChanged: !isSame || dedupeKey !== event.dedupe_key || correlationId !== event.correlation_id,
    // The same for all events of the key, so that these stay in one order.
    pseudonym: isKeyPersonal && !event.is_bound ? pseudonymOf(erasureId, event.ordering_key) : null,
    isKeyKept: isKeyPersonal && event.is_bound,
  };
}

/** Shorter texts also occur in keys that have nothing to do with them. */
const SHORTEST_IN_KEY = 5;

/** Keys are written by programs: a text stands in them as it is, or not at all. */
function holdsOne(key: string, texts: readonly string[]): boolean {
  const lower = key.toLowerCase();
  return texts.some(
    (text) => text.length >= SHORTEST_IN_KEY && /[\s@]/.test(text) && lower.includes(text.toLowerCase()),
  );
}

function pseudonymOf(erasureId: string, key: string): string {
  return `${ERASED} ${createHash('sha256').update(erasureId).update(key).digest('hex').slice(0, 16)}`;
}

/** A handler's error may quote anything. An operator's reason may name the person, and says more than that. */
function eraseAttempt(entry: PastAttempt, texts: readonly string[]): PastAttempt {
  const masked = (text: string) => maskPersonalData(text, texts);
  const isAct = entry.attempt === 0;
  return {
    ...entry,
    ...(entry.kind !== undefined && { kind: masked(entry.kind) }),
    ...(entry.message !== undefined && { message: isAct ? masked(entry.message) : ERASED }),
    ...(entry.answer !== undefined && { answer: ERASED }),
    ...(typeof entry.reason === 'string' && { reason: masked(entry.reason) }),
  };
}

const IDS = `(select value::uuid as id from jsonb_array_elements_text($1::jsonb) as value)`;

// One event after the other, so that each reads its own block ranges only.
const PLACES = `
  select lane_id::text, position::text, lane_key, event.id::text as event_id
  from ${IDS} as event, lateral (
    select lane_id, position, lane_key from deliveries where event_id = event.id offset 0
  ) as placed`;

const PLACED = `jsonb_to_recordset($1::jsonb) as placed(lane_id bigint, position bigint, lane_key text, event_id uuid)`;

// A delivery changes only under the lock of the lane that holds it, and of its key's own lane.
const LOCK_LANES = `
  select id from lanes
  where id in (select lane_id from ${PLACED})
    or home_id is not null and (home_id, held_key) in (select lane_id, lane_key from ${PLACED})
  order by id for update`;

const LOCK_DELIVERIES = `
  select lane_id::text, position::text, deliveries.event_id::text, attempt_log
  from deliveries join ${PLACED} using (lane_id, position)
  where attempt_log is not null
  order by lane_id, position for update of deliveries`;

const LOCK_EVENTS = `
  select events.id::text, topic, version, payload, ordering_key, dedupe_key, correlation_id, null as timer_key, to_json(texts) as texts,
    open > 0 or exists (select from halts where halts.lane_key = ordering_key and halts.topic = events.topic) as is_bound
  from events join erased_events on erasure_id = $1::uuid and event_id = events.id
  where events.id in (select value::uuid from jsonb_array_elements_text($2::jsonb) as value)
  order by events.id for update of events`;

// Its producer moves and cancels it by its key, and it is released by its ordering key.
const LOCK_TIMERS = `
  select timers.id::text, topic, version, payload, ordering_key, dedupe_key, correlation_id, timer_key,
    to_json(texts) as texts, true as is_bound
  from timers join erased_events on erasure_id = $1::uuid and event_id = timers.id
  where timers.id in (select value::uuid from jsonb_array_elements_text($2::jsonb) as value)
  order by timers.id for update of timers`;

const WRITE_ATTEMPTS = `
  update deliveries set attempt_log = written.attempt_log
  from jsonb_to_recordset($1::jsonb) as written(lane_id bigint, position bigint, attempt_log jsonb)
  where deliveries.lane_id = written.lane_id and deliveries.position = written.position`;

const WRITTEN = `
  with written as materialized (
    select * from jsonb_to_recordset($2::jsonb)
      as written(id uuid, payload jsonb, texts jsonb, dedupe_key text, correlation_id text)
  ),
  noted as (
    update erased_events set texts = array(select jsonb_array_elements_text(written.texts))
    from written where erasure_id = $1::uuid and event_id = written.id
  )`;

const WRITE_EVENTS = `${WRITTEN}
  update events set payload = written.payload, dedupe_key = written.dedupe_key,
    correlation_id = written.correlation_id, erased_at = clock_timestamp()
  from written where events.id = written.id`;

const WRITE_TIMERS = `${WRITTEN},
  used as (
    update timer_dedupe_keys set dedupe_key = written.dedupe_key
    from written where timer_id = written.id and timer_dedupe_keys.dedupe_key <> written.dedupe_key
  )
  update timers set payload = written.payload, dedupe_key = written.dedupe_key,
    correlation_id = written.correlation_id, erased_at = clock_timestamp()
  from written where timers.id = written.id`;

const WRITE_KEYS = `
  with rekeyed as materialized (
    -- Of the same shared lane.
    select id, (
      select pseudonym || ' ' || number from generate_series(0, 999) as number
      where postbud_slot(pseudonym || ' ' || number) = postbud_slot(ordering_key) order by number limit 1
    ) as pseudonym
    from jsonb_to_recordset($2::jsonb) as rekeyed(id uuid, pseudonym text) join events using (id)
  ),
  delivery as (
    update deliveries set lane_key = pseudonym from ${PLACED} join rekeyed on rekeyed.id = placed.event_id
    where deliveries.lane_id = placed.lane_id and deliveries.position = placed.position
      and deliveries.lane_key is not null
  )
  update events set ordering_key = pseudonym, erased_at = clock_timestamp() from rekeyed where events.id = rekeyed.id`;

const FORGET_ADDRESSES = `
  with forgotten as (
    update notifications set email = null where email is not null and event_id in (select id from ${IDS} as event)
    returning 1
  )
  select count(*)::int as count from forgotten`;

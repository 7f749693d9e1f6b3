import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';

import { and, eq, gt, inArray, isNotNull, sql } from 'drizzle-orm';

import { erasedEvents, notifications, setAside } from '../../../drizzle/schema.ts';
import type { PastAttempt } from '../../../drizzle/schema.ts';
import { ERASED } from '../../bus/catalog/marks.ts';
import { overwriteEvents } from '../../bus/deliveries/operations/overwrite-events.ts';
import type { StoredEvent } from '../../bus/deliveries/operations/overwrite-events.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import { erasePersonalData } from '../../bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';

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
 * attempts of their deliveries, in their notifications and in what was set aside of them. To do so again changes nothing.
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
  const { erasureId: of, eventId, texts } = erasedEvents;
  const chunk = await tx
    .select({ id: eventId, texts })
    .from(erasedEvents)
    .where(and(eq(of, erasureId), gt(eventId, after)))
    .orderBy(eventId)
    .limit(CHUNK);
  const ids = chunk.map(({ id }) => id);
  if (ids.length === 0) return { last: null, events: 0, deliveries: 0, notifications: 0, keysKept: 0 };
  const earlier = new Map(chunk.map((event) => [event.id, event.texts]));
  const { events, deliveries } = await overwriteEvents(
    tx,
    ids,
    (event) => erase(event, erasureId, names, earlier.get(event.id)!),
    (entry, event) => eraseAttempt(entry, [...names, ...(event?.texts ?? [])]),
  );
  const changed = events.filter(({ isChanged }) => isChanged);
  const noted = changed.map((event) => ({ id: event.id, texts: event.texts }));
  await run(tx, { text: NOTE_TEXTS, values: [erasureId, JSON.stringify(noted)] });
  const forgotten = await tx
    .update(notifications)
    .set({ email: null })
    .where(and(isNotNull(notifications.email), inArray(notifications.eventId, ids)))
    .returning({ id: notifications.eventId });
  // Until it is repaired, its event waits with the same ordering key, and its producer cancels a timer by the other one.
  await tx
    .update(setAside)
    .set({ found: sql`${setAside.found} - 'ordering_key' - 'timerKey'` })
    .where(and(isNotNull(setAside.repairedAt), inArray(setAside.eventId, ids)));
  return {
    last: ids.length < CHUNK ? null : ids.at(-1)!,
    events: changed.length,
    deliveries,
    notifications: forgotten.length,
    keysKept: events.filter(({ isKeyKept }) => isKeyKept).length,
  };
}

/** @param earlier texts that an earlier pass of this erasure has found in the event. */
function erase(event: StoredEvent, erasureId: string, names: readonly string[], earlier: readonly string[]) {
  const { payload, texts: own } = erasePersonalData(event.topic, event.payload, event.version);
  const texts = [...new Set([...earlier, ...own])];
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

/** The same for all events of a key, so that these stay in one order. */
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

const NOTE_TEXTS = `
  update erased_events set texts = array(select jsonb_array_elements_text(noted.texts))
  from jsonb_to_recordset($2::jsonb) as noted(id uuid, texts jsonb)
  where erasure_id = $1::uuid and event_id = noted.id`;

import * as z from 'zod';

import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import { idsIn } from '../../components/identifiers/identifier.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { HOUR, instantOf, msOf } from '../../platform/time.ts';
import { jsonOf, writeCursor } from '../kit/fields.ts';
import { placeOf } from '../kit/event-state.ts';
import type { Row } from '../kit/fields.ts';
import { LISTED_PAYLOAD_BYTES } from '../kit/listed-delivery.ts';
import { itemFields } from './fields.ts';
import type { Cursor, EventItem, EventList, EventsQuery } from './fields.ts';
import { placesOf, timeOf } from './places.ts';
import type { Place, Places } from './places.ts';
import { searchEvents } from './search.ts';

/**
 * Lists or searches events, page by page, newest first.
 *
 * @param now overrides the database's clock in tests.
 */
export async function readEvents(db: Database, query: EventsQuery, now?: Date): Promise<EventList> {
  const { limit: _, cursor: __, ...filters } = query;
  const { q, topic } = filters;
  const searched = q === undefined ? null : await searchEvents(db, asStored(q), query);
  const places =
    searched?.places ?? placesOf(db, { ...query, topics: topic === undefined ? undefined : [topic] });
  const page = await collect(places, {
    ...query,
    isOver: (place) => isPast(place, query, now),
    load: async (batch) => {
      const loaded = await loadEvents(db, batch, query, now);
      return loaded.flatMap((event) => {
        const place = batch[event.place - 1]!;
        const item = itemOf(event, place, query);
        return item ? [{ item, cursor: place.cursor }] : [];
      });
    },
  });
  return {
    generatedAt: instantOf(now?.getTime() ?? Date.now()),
    filters,
    items: page.items,
    nextCursor: page.next && writeCursor(page.next),
    lookedBackTo: page.lookedBackTo,
    isComplete: searched?.isComplete ?? true,
  };
}

/** Ids are stored in lower case, but for those of others. */
function asStored(q: string): string {
  return z.uuid().safeParse(q).success ? q.toLowerCase() : q;
}

/** Events that are looked at when the first ones do not fill the page. */
const BATCH = 200;

/** Events that are looked at for one page, in some 100 ms. */
const BUDGET = 800;

/** What is listed of the event at a place. */
interface At<Item> {
  readonly item: Item;
  readonly cursor: Cursor;
}

interface Page<Item> {
  readonly items: Item[];
  readonly next: Cursor | null;
  readonly lookedBackTo: string | null;
}

interface Collected<Item> extends Pick<EventsQuery, 'limit' | 'cursor'> {
  /** Loads what matches of a batch, in its order. */
  readonly load: (batch: readonly Place[]) => Promise<readonly At<Item>[]>;
  /** Whether nothing from this place on matches. */
  readonly isOver?: (place: Place) => boolean;
  readonly budget?: number;
}

/** Goes from place to place until the page is full, nothing is left, or enough was looked at. */
export async function collect<Item>(
  places: Places,
  { limit, cursor, load, isOver = () => false, budget = BUDGET }: Collected<Item>,
): Promise<Page<Item>> {
  const found: At<Item>[] = [];
  let after: Cursor | null = cursor ?? null;
  let size = limit + 1;
  for (let looked = 0; ;) {
    const batch = await places(after, size);
    found.push(...(await load(batch)));
    const items = found.slice(0, limit).map((one) => one.item);
    if (found.length > limit) return { items, next: found[limit - 1]!.cursor, lookedBackTo: null };
    const last = batch.at(-1);
    if (!last || batch.length < size || isOver(last)) return { items, next: null, lookedBackTo: null };
    looked += batch.length;
    if (looked >= budget) return { items, next: last.cursor, lookedBackTo: instantOf(timeOf(last.eventId)) };
    after = last.cursor;
    size = BATCH;
  }
}

/** An id may be so much older than the time of its event, which is the order of a list. */
const LONGEST_TRANSACTION_MS = HOUR;

/** Whether everything from this place on is older than the query's period. */
function isPast(place: Place, { since }: EventsQuery, now?: Date): boolean {
  if (since === undefined) return false;
  return timeOf(place.eventId) < (now?.getTime() ?? Date.now()) - msOf(since) - LONGEST_TRANSACTION_MS;
}

/** @returns null for an event that does not have the searched text, and for a smoke test's that nobody asked for. */
function itemOf(event: LoadedEvent, place: Place, query: EventsQuery): EventItem | null {
  const { q } = query;
  const { item, payload, version } = event;
  const { topic } = item;
  if (topic === SMOKE_TEST.topic && q === undefined && query.topic !== topic) return null;
  const by = q === undefined ? [] : [...(place.by ? [place.by] : []), ...foundBy(event, asStored(q))];
  if (q !== undefined && by.length === 0) return null;
  const subject = payload === null ? null : subjectOf(topic, payload, version);
  return { ...item, subject, foundBy: [...new Set(by)] };
}

/**
 * Says by what an event was found: its keys, and the fields of its payload.
 *
 * Texts that the catalog marks as personal data are not among them, nor is a provider's body but for the ids that it
 * declares, so that nobody learns by a search who is in an event.
 *
 * @returns nothing for an event that does not have the text: the index has only hashes.
 */
function foundBy(event: LoadedEvent, q: string): string[] {
  const { item, correlationId, causationId, orderingKey, dedupeKey } = event;
  const keys = [
    // The first event of a correlation names itself.
    ['correlation id', correlationId === item.eventId ? null : correlationId],
    ['causation id', causationId],
    ['ordering key', orderingKey],
    ['deduplication key', dedupeKey],
  ] as const;
  return [...keys.filter(([, value]) => value === q).map(([name]) => name), ...fieldsOf(event, q)];
}

function fieldsOf({ item: { topic }, payload, version }: LoadedEvent, q: string): string[] {
  const fields = idsIn({ topic, payload, version }).filter(({ text }) => text === q);
  return fields.map(({ pointer }) => `payload ${pointer}`);
}

/** An event as the database has it. */
interface LoadedEvent {
  readonly item: Row<typeof itemFields>;
  /** Its place among those that were asked for. */
  readonly place: number;
  /** Null if it is long and nobody needs the whole. */
  readonly payload: unknown;
  readonly version: number;
  readonly correlationId: string | null;
  readonly causationId: string | null;
  readonly orderingKey: string;
  readonly dedupeKey: string | null;
}

/** Reads the events at these places that match the query's filters, in the same order. */
async function loadEvents(
  db: Database,
  places: readonly Place[],
  { q, topic, state, subscriber, since }: EventsQuery,
  now?: Date,
): Promise<LoadedEvent[]> {
  if (places.length === 0) return [];
  return await run<LoadedEvent>(driverOf(db), {
    text: LOAD,
    values: [
      `{${places.map(({ eventId }) => eventId).join(',')}}`,
      `{${places.map(({ stream }) => stream ?? 'null').join(',')}}`,
      `{${places.map(({ position }) => position ?? 'null').join(',')}}`,
      topic ?? null,
      subscriber ?? null,
      state ?? null,
      q !== undefined,
      since === undefined ? null : msOf(since),
      now?.toISOString() ?? null,
    ],
  });
}

const LOAD = `
  with asked as materialized (
    select * from unnest($1::text::uuid[], $2::text::int[], $3::text::bigint[])
      with ordinality as asked(id, stream, position, place)
  )
  select ${jsonOf(itemFields)} as item, place::int as place,
    case when $7::boolean or pg_column_size(payload) <= ${LISTED_PAYLOAD_BYTES} then payload end as payload, version,
    correlation_id as "correlationId", causation_id as "causationId", ordering_key as "orderingKey",
    dedupe_key as "dedupeKey"
  from asked join lateral (
      select id, topic, payload, version, created_at, ordering_key, dedupe_key, correlation_id, causation_id, subscribers,
        seq
      from events where events.id = asked.id
      union all
      select id, topic, payload, version, set_at, ordering_key, dedupe_key, correlation_id, causation_id, '{}', null
      from timers where timers.id = asked.id
    ) as events on true
    left join lateral (
      select asked.stream, asked.position where asked.position is not null
      union all
      select stream, position from ${placeOf('events')} where asked.position is null and events.seq is not null
    ) as known on true
    cross join lateral (
      select max(case when dismissed_at is null then deliveries.state else 'delivered' end) as worst from deliveries
      where lane = any (array(select id from lanes where lanes.stream = known.stream)) and position = known.position
        and ($5::text is null or subscriber = $5::text)
    ) as delivery
    cross join lateral (
      select coalesce(worst, case when seq is null or known.position is null and subscribers <> '{}' then 'pending'
        else 'delivered' end::delivery_state) as state
    ) as whole
  where ($4::text is null or topic = $4::text)
    and ($5::text is null or worst is not null or known.position is null and $5::text = any (subscribers))
    and ($6::text is null or $6::text = state::text)
    and ($8::float8 is null or created_at >= coalesce($9::text::timestamptz, clock_timestamp())
      - $8::float8 * interval '1 millisecond')
  order by place`;

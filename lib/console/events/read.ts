import * as z from 'zod';

import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import type { Database } from '../../platform/db/connect.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import { HOUR, instantOf, msOf } from '../../platform/time.ts';
import { writeCursor } from '../kit/cursor.ts';
import type { EventItem, EventList } from './fields.ts';
import { foundBy } from './found-by.ts';
import { loadEvents } from './load.ts';
import type { LoadedEvent } from './load.ts';
import { deadLetteredEvents, eventsInStreams, failingEvents, newestEvents, openEvents } from './places.ts';
import type { Place, Places } from './places.ts';
import type { Cursor, EventsQuery } from './query.ts';
import { searchEvents } from './search.ts';

/**
 * Lists or searches events, page by page, newest first.
 *
 * @param now overrides the database's clock in tests.
 */
export async function readEvents(db: Database, query: EventsQuery, now?: Date): Promise<EventList> {
  const { q, topic = null, state = null, subscriber = null, since = null, limit } = query;
  const searched = q === undefined ? null : await searchEvents(db, asStored(q), query);
  const places = searched?.places ?? placesOf(db, query);
  const page = await collect(db, places, query, now);
  return {
    generatedAt: instantOf(now?.getTime() ?? Date.now()),
    filters: { q: q ?? null, topic, state, subscriber, since, limit },
    items: page.items,
    nextCursor: page.next && writeCursor(page.next),
    lookedBackTo: page.lookedBackTo,
    search: searched && searched.reach,
  };
}

/** Ids are stored in lower case, but for those of others. */
function asStored(q: string): string {
  return z.uuid().safeParse(q).success ? q.toLowerCase() : q;
}

function placesOf(db: Database, query: EventsQuery): Places {
  const { topic, subscriber, state } = query;
  switch (state) {
    case 'dead_lettered':
      return deadLetteredEvents(db, query);
    case 'failing':
      return failingEvents(db, query);
    case 'pending':
      return openEvents(db, query);
    case 'delivered':
    case undefined:
      return topic === undefined && subscriber === undefined ? newestEvents(db) : eventsInStreams(db, query);
  }
}

interface Page {
  readonly items: EventItem[];
  readonly next: Cursor | null;
  readonly lookedBackTo: string | null;
}

/** Events that are looked at when the first ones do not fill the page. */
const BATCH = 200;

/** Events that are looked at for one page, in some 100 ms. */
const BUDGET = 800;

/** Goes from place to place until the page is full, nothing is left, or enough was looked at. */
async function collect(db: Database, places: Places, query: EventsQuery, now?: Date): Promise<Page> {
  const { limit, cursor = null } = query;
  const found: { readonly item: EventItem; readonly cursor: Cursor }[] = [];
  let after: Cursor | null = cursor;
  let size = limit + 1;
  for (let looked = 0; ;) {
    const batch = await places(after, size);
    for (const event of await loadEvents(db, batch, query, now)) {
      const place = batch[event.place - 1]!;
      const shown = itemOf(event, place, query);
      if (shown) found.push({ item: shown, cursor: place.cursor });
    }
    const items = found.slice(0, limit).map((one) => one.item);
    if (found.length > limit) return { items, next: found[limit - 1]!.cursor, lookedBackTo: null };
    const last = batch.at(-1);
    if (!last || batch.length < size || isPast(last, query, now))
      return { items, next: null, lookedBackTo: null };
    looked += batch.length;
    if (looked >= BUDGET) return { items, next: last.cursor, lookedBackTo: instantOf(timeOf(last)) };
    after = last.cursor;
    size = BATCH;
  }
}

/** An id may be so much older than the time of its event, which is the order of a list. */
const LONGEST_TRANSACTION_MS = HOUR;

/** Whether everything from this place on is older than the query's period. */
function isPast(place: Place, { since }: EventsQuery, now?: Date): boolean {
  if (since === undefined) return false;
  return timeOf(place) < (now?.getTime() ?? Date.now()) - msOf(since) - LONGEST_TRANSACTION_MS;
}

/** A UUIDv7 begins with its time. */
function timeOf({ eventId }: Place): number {
  return Number.parseInt(eventId.replaceAll('-', '').slice(0, 12), 16);
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

import { findEvents } from '../../components/identifiers/find-events.ts';
import { isIdentifier, isSearchable } from '../../components/identifiers/identifier.ts';
import type { Database } from '../../platform/db/connect.ts';
import { instantOrNull } from '../../platform/time.ts';
import type { Reach } from './fields.ts';
import { findNamed } from './named.ts';
import { atPosition, positionOf } from './place.ts';
import type { Place, Places } from './place.ts';
import type { Cursor, EventsQuery } from './query.ts';
import { searchUnindexed } from './unindexed.ts';

/**
 * Searches events: by their own ids, and by the keys and payloads of the others.
 *
 * @param q the text that was searched.
 */
export async function searchEvents(
  db: Database,
  q: string,
  { subscriber, limit }: EventsQuery,
): Promise<{ readonly places: Places; readonly reach: Reach }> {
  if (!isSearchable(q)) return NOT_SEARCHED;
  const [named, unindexed] = await Promise.all([
    findNamed(db, q, { needsPosition: subscriber !== undefined, limit }),
    searchUnindexed(db, q),
  ]);
  const first = named.map(({ eventId, position, by }): Place => ({ eventId, position, cursor: START, by }));
  const isNamed = new Set(first.map(({ eventId }) => eventId));
  const others = unindexed.places.filter(({ eventId }) => !isNamed.has(eventId));
  const isKnown = new Set([...isNamed, ...others.map(({ eventId }) => eventId)]);
  const places: Places = async (after, size) => {
    const found = [
      ...(after === null ? first : []),
      ...others.filter(({ cursor }) => isBehind(cursor, after)),
    ].slice(0, size);
    let below = positionOf(after);
    for (;;) {
      const missing = size - found.length;
      if (missing === 0) return found;
      const indexed = await findEvents(db, q, { below, limit: missing });
      for (const { eventId, position } of indexed)
        if (eventId !== null && !isKnown.has(eventId)) found.push(atPosition(eventId, position));
      const last = indexed.at(-1);
      if (!last || indexed.length < missing) return found;
      below = last.position;
    }
  };
  return {
    places,
    reach: {
      since: instantOrNull(unindexed.indexedFromMs),
      notSearched: unindexed.notSearched,
      includesPayloads: isIdentifier(q),
    },
  };
}

/** Nothing is found by what can only be personal data, so that nobody learns who is in an event. */
const NOT_SEARCHED = {
  places: () => Promise.resolve([]),
  reach: { since: null, notSearched: 0, includesPayloads: false },
};

/** Before everything else: the events that are named are all on the first page. */
const START: Cursor = { in: 'awaiting', at: '9999-12-31T23:59:59Z', seq: '0' };

function isBehind(cursor: Cursor, after: Cursor | null): boolean {
  if (after === null) return true;
  if (after.in === 'positions') return cursor.in === 'positions' && cursor.position < after.position;
  if (after.in !== 'awaiting' || cursor.in !== 'awaiting') return true;
  return cursor.at < after.at || (cursor.at === after.at && BigInt(cursor.seq) < BigInt(after.seq));
}

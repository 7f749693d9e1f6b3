import { findEvents } from '../../components/identifiers/find-events.ts';
import { isIdentifier, isSearchable } from '../../components/identifiers/identifier.ts';
import type { Database } from '../../platform/db/connect.ts';
import { instantOrNull } from '../../platform/time.ts';
import type { Reach } from './fields.ts';
import { findNamed } from './named.ts';
import type { Place, Places } from './places.ts';
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
  { limit }: EventsQuery,
): Promise<{ readonly places: Places; readonly reach: Reach }> {
  if (!isSearchable(q)) return NOT_SEARCHED;
  const [named, unindexed] = await Promise.all([findNamed(db, q, limit), searchUnindexed(db, q)]);
  const first = named.map(({ eventId, by }) => ({ ...placeOf(eventId, Number.MAX_SAFE_INTEGER), by }));
  const isNamed = new Set(first.map(({ eventId }) => eventId));
  const others = unindexed.places.filter(({ eventId }) => !isNamed.has(eventId));
  const isKnown = new Set([...isNamed, ...others.map(({ eventId }) => eventId)]);
  const places: Places = async (after, size) => {
    let below = seqOf(after);
    const found = [
      ...(after === null ? first : []),
      ...others.filter(({ cursor }) => seqOf(cursor) < below),
    ].slice(0, size);
    for (;;) {
      const missing = size - found.length;
      if (missing === 0) return found;
      const indexed = await findEvents(db, q, { below, limit: missing });
      for (const { eventId, seq } of indexed)
        if (eventId !== null && !isKnown.has(eventId)) found.push(placeOf(eventId, seq));
      const last = indexed.at(-1);
      if (!last || indexed.length < missing) return found;
      below = last.seq;
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

/** An event that is named comes before all others: it is on the first page. */
function placeOf(eventId: string, seq: number): Place {
  return { eventId, stream: null, position: null, cursor: { in: 'seqs', seq } };
}

function seqOf(cursor: Cursor | null): number {
  return cursor?.in === 'seqs' ? cursor.seq : Number.MAX_SAFE_INTEGER;
}

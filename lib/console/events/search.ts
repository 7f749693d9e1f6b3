import { topics } from '../../bus/catalog/catalog.ts';
import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { findEvents } from '../../components/identifiers/find-events.ts';
import { isIdentifier, isSearchable } from '../../components/identifiers/identifier.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { Cursor, EventsQuery } from './fields.ts';
import type { Place, Places } from './places.ts';

/**
 * Searches events: by their own ids, and by the keys and payloads of the others.
 *
 * @param q the text that was searched.
 */
export async function searchEvents(
  db: Database,
  q: string,
  { limit }: EventsQuery,
): Promise<{ readonly places: Places; readonly isComplete: boolean }> {
  if (!isSearchable(q)) return NOT_SEARCHED;
  const { named, unindexed, isComplete } = await findFirst(db, q, limit);
  const first = named.map(({ id, by }) => ({ ...placeOf(id, Number.MAX_SAFE_INTEGER), by }));
  const isNamed = new Set(first.map(({ eventId }) => eventId));
  const others = unindexed.filter(({ id }) => !isNamed.has(id)).map(({ id, seq }) => placeOf(id, seq));
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
      const indexed = await findEvents(db, [q], { below, limit: missing });
      for (const { eventId, seq } of indexed)
        if (eventId !== null && !isKnown.has(eventId)) found.push(placeOf(eventId, seq));
      const last = indexed.at(-1);
      if (!last || indexed.length < missing) return found;
      below = last.seq;
    }
  };
  return { places, isComplete };
}

/** Nothing is found by what can only be personal data, so that nobody learns who is in an event. */
const NOT_SEARCHED = { places: () => Promise.resolve([]), isComplete: true };

/** An event that is named comes before all others: it is on the first page. */
function placeOf(eventId: string, seq: number): Place {
  return { eventId, stream: null, position: null, cursor: { in: 'seqs', seq } };
}

function seqOf(cursor: Cursor | null): number {
  return cursor?.in === 'seqs' ? cursor.seq : Number.MAX_SAFE_INTEGER;
}

/** What is found beside the index of identifiers, newest first. */
interface FoundFirst {
  /** The events and timers whose own id, delivery or key was searched. */
  readonly named: readonly { readonly id: string; readonly by: string }[];
  /** The events that have the text, and are not in the index yet. */
  readonly unindexed: readonly { readonly id: string; readonly seq: number }[];
  /** Whether all other events are in the index. */
  readonly isComplete: boolean;
}

async function findFirst(db: Database, q: string, limit: number): Promise<FoundFirst> {
  const [from, to] = rangeOf(q) ?? [null, null];
  const { eventId, subscriber } = readDeliveryId(q.toLowerCase()) ?? { eventId: null, subscriber: null };
  const [row] = await run<{ found: FoundFirst }>(driverOf(db), {
    text: SEARCH,
    values: [from, to, eventId, subscriber, q, TOPICS, limit, isIdentifier(q)],
  });
  return row!.found;
}

/** Fewer digits would be those of events of weeks: an id begins with its time. */
const FEWEST_DIGITS = 8;

/** @returns the first and the last id that begin like this; null for what is not the beginning of an id. */
function rangeOf(q: string): readonly [from: string, to: string] | null {
  const digits = q.toLowerCase().replaceAll('-', '');
  if (!/^[0-9a-f]+$/.test(digits) || digits.length < FEWEST_DIGITS || digits.length > 32) return null;
  if (q.includes('-') && q.indexOf('-') !== 8) return null;
  return [digits.padEnd(32, '0'), digits.padEnd(32, 'f')];
}

const TOPICS = `{${topics()
  .map(([topic]) => topic)
  .join(',')}}`;

/** Searched one by one: more than the index leaves out while the cron runs. */
const SEARCHED = 4096;

// The webhooks of a provider carry its event id in the payload, so the index leads to them.
const SEARCH = `
  with named as materialized (
    (
      select id, 'event id' as by from events
      where id between $1::text::uuid and $2::text::uuid order by id desc limit $7::int
    )
    union all
    (
      select id, 'event id' from timers
      where id between $1::text::uuid and $2::text::uuid order by id desc limit $7::int
    )
    union all
    select id, 'timer key' from timers where timer_key = $5::text
    union all
    select event_id, 'delivery id' from deliveries where event_id = $3::text::uuid and subscriber = $4::text
    union all
    select events.id, 'deduplication key'
    from unnest($6::text::text[]) as known(topic) join events on events.topic = known.topic and dedupe_key = $5::text
  ),
  indexed as materialized (
    select from_seq, to_seq from indexed_events
  ),
  newest as materialized (
    select id, seq from events order by id desc limit ${SEARCHED}
  ),
  bound as materialized (
    select coalesce(max(to_seq), 0) as to_seq from indexed
  ),
  matching as (
    select newest.* from bound, newest, lateral (
      select correlation_id, causation_id, ordering_key, dedupe_key, payload from events
      -- Each is looked up: a join would become that of a hash of all events, with their payloads.
      where events.id = newest.id offset 0
    ) as event
    where newest.seq >= to_seq and (
      correlation_id = $5::text or causation_id = $5::text or ordering_key = $5::text or dedupe_key = $5::text
        or $8::boolean and jsonb_path_exists(payload, '$.** ? (@ == $q)', jsonb_build_object('q', $5::text))
    )
  )
  select json_build_object(
    'named', (
      select coalesce(json_agg(json_build_object('id', id, 'by', by) order by id desc), '[]') from named
    ),
    'unindexed', (
      select coalesce(json_agg(json_build_object('id', id, 'seq', seq) order by seq desc), '[]') from matching
    ),
    'isComplete', coalesce((select from_seq from indexed), 0) <= 0 and (
      -- Numbers of transactions that were rolled back are counted too.
      select count(*) < ${SEARCHED} or max(seq) + 1 - greatest(to_seq, 1) <= count(*) filter (where seq >= to_seq)
      from newest
    )
  ) as found
  from bound`;

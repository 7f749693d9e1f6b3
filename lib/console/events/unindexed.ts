import { BLOCK } from '../../components/identifiers/block.ts';
import { isIdentifier } from '../../components/identifiers/identifier.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { Place } from './places.ts';

/** The events that are not in the index and have an identifier, and how far the search reaches. */
export interface Unindexed {
  /** Newest first. */
  readonly places: readonly Place[];
  /** About how many of the newest events were neither in the index nor searched one by one. */
  readonly notSearched: number;
  /** The time of the oldest event in the index, in epoch milliseconds; null if it has all events. */
  readonly indexedFromMs: number | null;
}

/** Searched one by one: more than the index leaves out while the cron runs. */
const SEARCHED = 4096;

/** Searches the newest events, which are not in the index yet, one by one. */
export async function searchUnindexed(db: Database, q: string): Promise<Unindexed> {
  const [row] = await run<{ found: Found }>(driverOf(db), { text: SEARCH, values: [q, isIdentifier(q)] });
  const { places, notSearched, oldest } = row!.found;
  return {
    places: places.map(({ id, seq }) => ({
      eventId: id,
      stream: null,
      position: null,
      cursor: { in: 'seqs', seq },
    })),
    notSearched,
    // A UUIDv7 begins with its time.
    indexedFromMs: oldest === null ? null : Number.parseInt(oldest.replaceAll('-', '').slice(0, 12), 16),
  };
}

interface Found {
  readonly places: readonly { readonly id: string; readonly seq: number }[];
  readonly notSearched: number;
  readonly oldest: string | null;
}

const SEARCH = `
  with indexed as materialized (
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
      correlation_id = $1::text or causation_id = $1::text or ordering_key = $1::text or dedupe_key = $1::text
        or $2::boolean and jsonb_path_exists(payload, '$.** ? (@ == $q)', jsonb_build_object('q', $1::text))
    )
  )
  select json_build_object(
    'places', (
      select coalesce(json_agg(json_build_object('id', id, 'seq', seq) order by seq desc), '[]') from matching
    ),
    'notSearched', (
      -- Numbers of transactions that were rolled back are counted too.
      select case when count(*) = ${SEARCHED}
        then greatest(0, max(seq) + 1 - greatest(to_seq, 1) - count(*) filter (where seq >= to_seq)) else 0 end
      from newest
    ),
    'oldest', case when (select from_seq from indexed) > 0 then coalesce((
      select encode(substring(event_ids from (16 * slot + 1)::int for 16), 'hex')::uuid
      from (select event_ids from event_blocks order by from_seq limit 1) as first,
        generate_series(0, ${BLOCK - 1}) as slot
      where substring(event_ids from (16 * slot + 1)::int for 16) <> decode(repeat('00', 16), 'hex')
      order by slot limit 1
    ), (select id from newest order by id limit 1)) end
  ) as found
  from bound`;

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { BLOCK, MERGED, bucketOf } from './block.ts';
import { hashOf } from './identifier.ts';

/** An event that the index gives for an identifier. */
export interface FoundEvent {
  readonly seq: number;
  /** Null for an event that has been pruned. */
  readonly eventId: string | null;
}

/**
 * Finds the events that have one of these identifiers, newest first. One in some millions is a false hit, since the index
 * has hashes: the caller looks at the event itself.
 *
 * @param below only events with a lower `seq`.
 * @returns `limit` of each identifier, or fewer where there are no more.
 */
export async function findEvents(
  db: Database,
  identifiers: readonly string[],
  { below, limit }: { readonly below: number; readonly limit: number },
): Promise<FoundEvent[]> {
  const hashes = identifiers.map(hashOf);
  const ofBlocks = (size: number) => `{${hashes.map((hash) => bucketOf(hash, size)).join(',')}}`;
  return await run<FoundEvent>(driverOf(db), {
    text: FIND,
    values: [`{${hashes.join(',')}}`, ofBlocks(MERGED), ofBlocks(BLOCK), below, limit],
  });
}

// Most rows of a bucket don't have the hash, and only the others' ordinals are read: newest first, until there are enough.
const FIND = `
  with posting as materialized (
    select found.seq
    from unnest($1::int[], $2::int[], $3::int[]) as asked(hash, merged_bucket, block_bucket), lateral (
      select posting.seq
      from (
        select bucket, from_seq, array_position(hashes, asked.hash) as place
        from identifiers
        where bucket = any (array[merged_bucket, block_bucket]) and from_seq < $4::float8::bigint
          and asked.hash = any (hashes)
        order by from_seq desc offset 0
      ) as matching, lateral (
        select from_seq + ordinal as seq
        from identifiers,
          unnest(ordinals[coalesce(ends[matching.place - 1], 0) + 1 : ends[matching.place]]) as ordinal
        where identifiers.bucket = matching.bucket and identifiers.from_seq = matching.from_seq
        order by ordinal desc offset 0
      ) as posting
      where posting.seq < $4::float8::bigint
      limit $5::int
    ) as found
  )
  select posting.seq::float8 as seq, named.id::text as "eventId"
  from posting left join event_blocks on from_seq = posting.seq - posting.seq % ${BLOCK},
    lateral (
      select encode(substring(event_ids from (posting.seq % ${BLOCK} * 16 + 1)::int for 16), 'hex')::uuid as id
    ) as named
  order by posting.seq desc`;

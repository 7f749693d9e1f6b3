import { hashOf } from './identifier.ts';

// The index cuts the numbers of events (`seq`) into ranges. A block has the identifiers of 1,024 numbers in 16 rows, by the
// first 4 bits of their hashes; 32 blocks in a row are merged into one of 32,768 numbers in 2,048 rows, by the first 11
// bits. So a search reads one small row of each merged block, and of at most some dozens of others.

export const BLOCK = 1024;
export const MERGED = 32 * BLOCK;

const MERGED_BITS = 11;
const BITS = 4;

/** Buckets of merged blocks are 0 to 2,047, those of blocks follow. */
export const FIRST_SMALL_BUCKET = 2 ** MERGED_BITS;
export const LAST_BUCKET = FIRST_SMALL_BUCKET + 2 ** BITS - 1;

/** The bucket of a hash. @param size `BLOCK` or `MERGED`, as in all of this file. */
export function bucketOf(hash: number, size: number): number {
  return size === MERGED ? hash >>> (32 - MERGED_BITS) : FIRST_SMALL_BUCKET + (hash >>> (32 - BITS));
}

/** Where a block's hashes occur: the ordinals count the numbers of the block, from 0. */
export type Postings = ReadonlyMap<number, readonly number[]>;

/** A row of `identifiers`: the ordinals of `hashes[i]` end at `ends[i]`, and begin where those before it end. */
export interface BucketRow {
  readonly bucket: number;
  readonly hashes: readonly number[];
  readonly ends: readonly number[];
  readonly ordinals: readonly number[];
}

/** Collects the postings of a block. @param events in the order of their numbers. */
export function postingsOf(
  events: Iterable<{ readonly ordinal: number; readonly identifiers: ReadonlySet<string> }>,
): Postings {
  const postings = new Map<number, number[]>();
  for (const { ordinal, identifiers } of events) {
    // Two identifiers of one event with the same hash are one posting.
    for (const hash of new Set(Array.from(identifiers, hashOf))) add(postings, hash, ordinal);
  }
  return postings;
}

/** Puts together the rows of consecutive blocks. @param blocks each with the ordinal of its first number. */
export function mergedPostings(
  blocks: Iterable<{ readonly from: number; readonly rows: readonly BucketRow[] }>,
): Postings {
  const postings = new Map<number, number[]>();
  for (const { from, rows } of blocks)
    for (const { hashes, ends, ordinals } of rows)
      for (const [index, hash] of hashes.entries())
        for (const ordinal of ordinals.slice(ends[index - 1] ?? 0, ends[index]))
          add(postings, hash, from + ordinal);
  return postings;
}

/** Writes postings as rows. */
export function rowsOf(postings: Postings, size: number): BucketRow[] {
  const buckets = new Map<number, number[]>();
  for (const hash of postings.keys()) add(buckets, bucketOf(hash, size), hash);
  return Array.from(buckets, ([bucket, unsorted]) => {
    const hashes = unsorted.toSorted((one, other) => one - other);
    const lists = hashes.map((hash) => postings.get(hash)!);
    let end = 0;
    return { bucket, hashes, ends: lists.map(({ length }) => (end += length)), ordinals: lists.flat() };
  });
}

function add(lists: Map<number, number[]>, key: number, item: number): void {
  const known = lists.get(key);
  if (known) known.push(item);
  else lists.set(key, [item]);
}

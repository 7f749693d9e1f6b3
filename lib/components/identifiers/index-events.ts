import { indexedPositions } from '../../../drizzle/schema.ts';
import { transact } from '../../platform/db/connect.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
import { BLOCK, FIRST_SMALL_BUCKET, LAST_BUCKET, MERGED, mergedPostings, rowsOf } from './block.ts';
import type { BucketRow } from './block.ts';
import { holdIndex } from './hold-index.ts';
import { readEvents } from './read-events.ts';
import { dropRows, writeRows } from './rows.ts';
import { writeBlock } from './write-block.ts';

export interface IndexOptions {
  readonly db: Database;
  /** When to begin no further step, in milliseconds since the epoch. A step takes some 100 ms. */
  readonly until: number;
  readonly signal?: AbortSignal;
}

/** The positions whose events the index knows: from `from`, below `to`. */
interface Indexed {
  readonly from: number;
  readonly to: number;
}

const STATEMENT_LIMIT_MS = 10 * SECOND;

/**
 * Adds events to the index of identifiers: first those that were fanned out since the last time, then older ones, newest
 * first, until all are in it or the time is up.
 *
 * It follows positions, which fan-out gives in the order of its commits. So once the newest position is seen, all before
 * it are, and no event is missed, however late it was committed. Nothing waits for it: it locks only its own rows. Any
 * number may run at once; all but one do nothing.
 *
 * @returns the number of events that were added.
 * @throws the driver's error.
 */
export async function indexEvents({ db, until, signal }: IndexOptions): Promise<number> {
  let total = 0;
  for (;;) {
    if (Date.now() >= until || signal?.aborted) return total;
    const events = await transact(db, takeStep, signal ?? new AbortController().signal);
    if (events === null) return total;
    total += events;
  }
}

/** @returns the number of events added, which may be 0; null when there is nothing to do, or another process does it. */
async function takeStep(tx: Transaction): Promise<number | null> {
  await limitStatements(tx, STATEMENT_LIMIT_MS);
  if (!(await holdIndex(tx))) return null;
  const [found] = await run<Found>(tx, { text: PROGRESS, values: [] });
  const { newest, mergeable } = found!;
  if (newest === null) return null;
  if (found!.rule !== null && found!.rule < RULE) {
    await run(tx, { text: FORGET, values: [DELETED_AT_ONCE] });
    return 0;
  }
  // A database with older events: the index begins with the newest, and works back.
  const indexed = { from: found!.from ?? startOf(newest), to: found!.to ?? startOf(newest) };
  if (mergeable !== null) {
    await merge(tx, mergeable);
    return 0;
  }
  const to = Math.min(startOf(newest + 1), indexed.to + BLOCK);
  if (to > indexed.to) return await add(tx, { from: indexed.to, to }, { ...indexed, to });
  if (indexed.from === 0) return null;
  const [older] = await run<{ position: number | null }>(tx, { text: NEWEST_BELOW, values: [indexed.from] });
  const end = older!.position === null ? 0 : startOf(older!.position) + BLOCK;
  const from = Math.max(0, end - BACKWARDS);
  return await add(tx, { from, to: end }, { ...indexed, from });
}

/**
 * Counts changes of what is an identifier. 2: only ids that the catalog shows or declares; before, any text that looked
 * like one. An index by an older rule is deleted, since its hashes may be of personal data.
 */
const RULE = 2;

/** Rows of the index that a step deletes, in a tenth of a second. */
const DELETED_AT_ONCE = 10_000;

// The row that has the rule goes last, once nothing else is left: until then each step comes here again.
const FORGET = `
  with identifier as (
    delete from identifiers where ctid = any (array(select ctid from identifiers limit $1::int)) returning 1
  ),
  block as (
    delete from event_blocks
    where not exists (select from identifiers)
      and ctid = any (array(select ctid from event_blocks limit $1::int))
    returning 1
  )
  delete from indexed_positions
  where not exists (select from identifiers) and not exists (select from event_blocks)`;

/** Old events are in more lanes, so that several blocks at once are read faster. */
const BACKWARDS = 4 * BLOCK;

interface Found {
  readonly newest: number | null;
  readonly from: number | null;
  readonly to: number | null;
  readonly rule: number | null;
  /** The first position of 32 blocks that can be merged. */
  readonly mergeable: number | null;
}

// The only rows of the first small bucket are those of blocks that are not merged yet; a block may lack it, but 32 don't.
const PROGRESS = `
  with indexed as materialized (
    select from_position, to_position, rule from indexed_positions
  )
  select (select max(tail) from lanes)::float8 as newest, from_position::float8 as "from", to_position::float8 as "to", rule,
    (
      select min(small.from_position - small.from_position % ${MERGED}) from identifiers as small
      where bucket between ${FIRST_SMALL_BUCKET} and ${LAST_BUCKET}
        and small.from_position - small.from_position % ${MERGED} >= indexed.from_position
        and small.from_position - small.from_position % ${MERGED} + ${MERGED} <= indexed.to_position
    )::float8 as mergeable
  from (select 1) as always left join indexed on true`;

const NEWEST_BELOW = `
  select max(position)::float8 as position
  from lanes, lateral (
    select position from deliveries where lane_id = lanes.id and position < $1::float8::bigint
    order by position desc limit 1
  ) as newest`;

function startOf(position: number): number {
  return position - (position % BLOCK);
}

/** Adds the blocks of some positions, except empty ones, and records which positions are indexed then. */
async function add(tx: Transaction, added: Indexed, indexed: Indexed): Promise<number> {
  const events = await readEvents(tx, added.from, added.to);
  for (let from = added.from; from < added.to; from += BLOCK) {
    const block = events.filter(({ position }) => startOf(position) === from);
    if (block.length > 0) await writeBlock(tx, from, block, BLOCK);
  }
  const range = { fromPosition: indexed.from, toPosition: indexed.to };
  await tx
    .insert(indexedPositions)
    .values({ ...range, rule: RULE })
    .onConflictDoUpdate({ target: indexedPositions.isOnlyRow, set: range });
  return events.length;
}

/** Merges the 32 blocks from a position on. */
async function merge(tx: Transaction, from: number): Promise<void> {
  const found = await run<{ from: number; rows: readonly BucketRow[] }>(tx, {
    text: BLOCKS,
    values: [from],
  });
  const postings = mergedPostings(found.map((block) => ({ from: block.from - from, rows: block.rows })));
  await dropRows(tx, from, from + MERGED);
  await writeRows(tx, from, rowsOf(postings, MERGED));
}

const BLOCKS = `
  select from_position::float8 as "from", json_agg(json_build_object('bucket', bucket, 'hashes', hashes, 'ends', ends,
    'ordinals', ordinals)) as rows
  from identifiers
  where bucket between ${FIRST_SMALL_BUCKET} and ${LAST_BUCKET}
    and from_position between $1::float8::bigint and $1::float8::bigint + ${MERGED - 1}
  group by from_position order by from_position`;

import { indexedEvents } from '../../../drizzle/schema.ts';
import { EMITTER_LOCKS } from '../../bus/outbox/emitter-locks.ts';
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

/** The numbers whose events the index knows: from `from`, below `to`. */
interface Indexed {
  readonly from: number;
  readonly to: number;
}

const STATEMENT_LIMIT_MS = 10 * SECOND;

/**
 * Adds events to the index of identifiers: first those that were recorded since the last time, then older ones, newest
 * first, until all are in it or the time is up.
 *
 * A number is drawn before its transaction commits, and a lower one may be committed later: the index waits until every
 * transaction has ended that had emitted when a number was seen. So no event is missed, however late it was committed.
 * Nothing waits for the index: it locks only its own rows. Any number may run at once; all but one do nothing.
 *
 * @returns the number of events that were added.
 * @throws the driver's error.
 */
export async function indexEvents({ db, until, signal }: IndexOptions): Promise<number> {
  let total = 0;
  let width = BACKWARDS;
  for (;;) {
    if (Date.now() >= until || signal?.aborted) return total;
    const step = await transact(
      db,
      async (tx) => await takeStep(tx, width),
      signal ?? new AbortController().signal,
    );
    if (step === null) return total;
    total += step.events;
    width = step.width;
  }
}

interface Step {
  /** Events added, which may be none. */
  readonly events: number;
  /** How many older numbers the next step is to look at. */
  readonly width: number;
}

/** @returns null when there is nothing to do, or another process does it. */
async function takeStep(tx: Transaction, width: number): Promise<Step | null> {
  await limitStatements(tx, STATEMENT_LIMIT_MS);
  if (!(await holdIndex(tx))) return null;
  const [found] = await run<Found>(tx, { text: PROGRESS, values: [] });
  const { newest, rule, mergeable } = found!;
  if (newest === null) return null;
  if (rule !== null && rule < RULE) {
    await run(tx, { text: FORGET, values: [DELETED_AT_ONCE] });
    return { events: 0, width };
  }
  // A database with older events: the index begins with the newest, and works back.
  const indexed = { from: found!.from ?? startOf(newest), to: found!.to ?? startOf(newest) };
  if (mergeable !== null) {
    await merge(tx, mergeable);
    return { events: 0, width };
  }
  let certainTo = found!.certainTo ?? 0;
  if ((startOf(certainTo) <= indexed.to && startOf(newest + 1) > indexed.to) || certainTo < indexed.from) {
    const values = [newest + 1, indexed.from, indexed.to, RULE];
    const [noted] = await run<{ certainTo: number }>(tx, { text: NOTE_EMITTING, values });
    certainTo = noted!.certainTo;
  }
  const to = Math.min(startOf(certainTo), indexed.to + BLOCK);
  if (to > indexed.to) return { events: await add(tx, { from: indexed.to, to }, { ...indexed, to }), width };
  if (indexed.from === 0 || certainTo < indexed.from) return null;
  const from = Math.max(0, indexed.from - width);
  // Past a gap in the numbers, as a prune leaves one, by longer and longer steps; where it ends by shorter ones.
  if (width > BACKWARDS) {
    const [any] = await run<{ is_any: boolean }>(tx, { text: IS_ANY, values: [from, indexed.from] });
    if (any!.is_any) return { events: 0, width: width / 2 };
  }
  const events = await add(tx, { from, to: indexed.from }, { ...indexed, from });
  return { events, width: events === 0 ? width * 2 : BACKWARDS };
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
  delete from indexed_events
  where not exists (select from identifiers) and not exists (select from event_blocks)`;

/** Several blocks at once are read faster. */
const BACKWARDS = 4 * BLOCK;

interface Found {
  readonly newest: number | null;
  readonly from: number | null;
  readonly to: number | null;
  readonly rule: number | null;
  readonly certainTo: number | null;
  /** The first number of 32 blocks that can be merged. */
  readonly mergeable: number | null;
}

// The only rows of the first small bucket are those of blocks that are not merged yet; a block may lack it, but 32 don't.
// The planner is to find events by the ranges of their numbers, also where it knows nothing of the table.
const PROGRESS = `
  with indexed as materialized (
    select from_seq, to_seq, rule, certain_to from indexed_events
  )
  select (
      select max(seq) from (select seq from events order by id desc limit ${BLOCK}) as newest
    )::float8 as newest, from_seq::float8 as "from", to_seq::float8 as "to", rule, certain_to::float8 as "certainTo",
    set_config('enable_seqscan', 'off', true),
    (
      select min(small.from_seq - small.from_seq % ${MERGED}) from identifiers as small
      where bucket between ${FIRST_SMALL_BUCKET} and ${LAST_BUCKET}
        and small.from_seq - small.from_seq % ${MERGED} >= indexed.from_seq
        and small.from_seq - small.from_seq % ${MERGED} + ${MERGED} <= indexed.to_seq
    )::float8 as mergeable
  from (select 1) as always left join indexed on true`;

// The number was seen by an earlier statement: whoever drew a lower one has emitted by now, and is listed or has ended. A
// prepared transaction has another name after a restart, so that any of those is waited for.
const NOTE_EMITTING = `
  with emitting as materialized (
    select virtualtransaction as name, pid is null as is_prepared from pg_locks
    where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = ${EMITTER_LOCKS} and objsubid = 2
      and database = (select oid from pg_database where datname = current_database())
  )
  insert into indexed_events as known (from_seq, to_seq, rule, certain_to, certain_next, emitting)
  select $2::float8::bigint, $3::float8::bigint, $4::int,
    case when not exists (select from emitting) then $1::float8::bigint else 0 end, $1::float8::bigint,
    array(select name from emitting)
  on conflict (is_only_row) do update set
    certain_to = greatest(known.certain_to, excluded.certain_to, case when not exists (
      select from emitting where is_prepared or name = any (known.emitting)
    ) then known.certain_next end),
    certain_next = case when exists (
      select from emitting where is_prepared or name = any (known.emitting)
    ) then known.certain_next else excluded.certain_next end,
    emitting = case when exists (
      select from emitting where is_prepared or name = any (known.emitting)
    ) then known.emitting else excluded.emitting end
  returning certain_to::float8 as "certainTo"`;

const IS_ANY = `
  select exists (
    select from events where seq >= $1::float8::bigint and seq < $2::float8::bigint limit 1
  ) as is_any`;

function startOf(seq: number): number {
  return seq - (seq % BLOCK);
}

/** Adds the blocks of some numbers, except empty ones, and records which numbers are indexed then. */
async function add(tx: Transaction, added: Indexed, indexed: Indexed): Promise<number> {
  const events = await readEvents(tx, added.from, added.to);
  for (let from = added.from; from < added.to; from += BLOCK) {
    const block = events.filter(({ seq }) => startOf(seq) === from);
    if (block.length > 0) await writeBlock(tx, from, block, BLOCK);
  }
  await tx.update(indexedEvents).set({ fromSeq: indexed.from, toSeq: indexed.to });
  return events.length;
}

/** Merges the 32 blocks from a number on. */
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
  select from_seq::float8 as "from", json_agg(json_build_object('bucket', bucket, 'hashes', hashes, 'ends', ends,
    'ordinals', ordinals)) as rows
  from identifiers
  where bucket between ${FIRST_SMALL_BUCKET} and ${LAST_BUCKET}
    and from_seq between $1::float8::bigint and $1::float8::bigint + ${MERGED - 1}
  group by from_seq order by from_seq`;

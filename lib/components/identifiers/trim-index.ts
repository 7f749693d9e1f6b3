import { and, gte, lt, sql } from 'drizzle-orm';

import { eventBlocks } from '../../../drizzle/schema.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { DAY } from '../../platform/time.ts';
import { BLOCK, MERGED } from './block.ts';
import { holdIndex } from './hold-index.ts';
import type { NumberedEvent } from './read-events.ts';
import { dropRows } from './rows.ts';
import { writeBlock } from './write-block.ts';

/** A block is looked at again after this time: its dead letters may have been replayed and pruned. */
const AGAIN_AFTER_MS = 7 * DAY;

/**
 * Takes pruned events out of the oldest merged block that is past retention and was not looked at lately: it is deleted
 * when none of its events is left, and written anew when less than half are. One block a call, in a tenth of a second.
 *
 * @param keepMs how long events are kept that every subscriber received.
 * @param now overrides the database's clock in tests.
 */
export async function trimIndex(db: Database, keepMs: number, now?: Date): Promise<void> {
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    if (!(await holdIndex(tx))) return;
    const values = [keepMs, now?.toISOString() ?? null, AGAIN_AFTER_MS];
    const [oldest] = await run<Found>(tx, { text: OLDEST, values });
    if (!oldest) return;
    const { from } = oldest;
    const { fromSeq } = eventBlocks;
    const isIts = and(gte(fromSeq, from), lt(fromSeq, from + MERGED));
    const trimmedAt = now ?? sql`clock_timestamp()`;
    await tx.update(eventBlocks).set({ trimmedAt }).where(isIts);
    if (oldest.left * 2 >= oldest.stored) return;
    const events = await readLeft(tx, from);
    await tx.delete(eventBlocks).where(isIts);
    await dropRows(tx, from, from + MERGED);
    if (events.length > 0) await writeBlock(tx, from, events, MERGED);
    await tx.update(eventBlocks).set({ trimmedAt }).where(isIts);
  });
}

interface Found {
  readonly from: number;
  /** Events in the block, and how many of them there still are. */
  readonly stored: number;
  readonly left: number;
}

// An id begins with its time.
const OLDEST = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  oldest as materialized (
    select event_blocks.from_seq - event_blocks.from_seq % ${MERGED} as from_seq
    from clock, event_blocks, indexed_events as indexed
    -- In the future only by a clock that was ahead.
    where (
        trimmed_at between clock.now - $3::float8 * interval '1 millisecond' and clock.now + interval '10 seconds'
      ) is not true
      and event_blocks.from_seq - event_blocks.from_seq % ${MERGED} >= indexed.from_seq
      and event_blocks.from_seq - event_blocks.from_seq % ${MERGED} + ${MERGED} <= indexed.to_seq
    -- If it is not past retention, no later one is.
    order by event_blocks.from_seq limit 1
  ),
  stored as materialized (
    select encode(substring(event_ids from (16 * slot + 1)::int for 16), 'hex')::uuid as id
    from oldest join event_blocks on event_blocks.from_seq >= oldest.from_seq
      and event_blocks.from_seq < oldest.from_seq + ${MERGED}, generate_series(0, ${BLOCK - 1}) as slot
  ),
  named as materialized (
    select id from stored where id <> '00000000-0000-0000-0000-000000000000'
  )
  select oldest.from_seq::float8 as "from", (select count(*) from named)::int as stored,
    (select count(*) from named join events using (id))::int as "left"
  from clock, oldest
  where (select id from named order by id desc limit 1) < (
    lpad(to_hex((extract(epoch from clock.now) * 1000 - $1::float8)::bigint), 12, '0') || repeat('0', 20)
  )::uuid`;

async function readLeft(tx: Transaction, from: number): Promise<NumberedEvent[]> {
  return await run<NumberedEvent>(tx, { text: LEFT, values: [from] });
}

const LEFT = `
  with stored as materialized (
    select from_seq + slot as seq,
      encode(substring(event_ids from (16 * slot + 1)::int for 16), 'hex')::uuid as id
    from event_blocks, generate_series(0, ${BLOCK - 1}) as slot
    where from_seq >= $1::float8::bigint and from_seq < $1::float8::bigint + ${MERGED}
  )
  select stored.seq::float8 as seq, events.id::text as id, correlation_id as "correlationId",
    causation_id as "causationId", ordering_key as "orderingKey", dedupe_key as "dedupeKey", topic,
    version, payload
  from stored join events using (id)
  order by stored.seq`;

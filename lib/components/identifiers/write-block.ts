import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import { BLOCK, postingsOf, rowsOf } from './block.ts';
import { identifiersOf } from './identifier.ts';
import type { PlacedEvent } from './read-events.ts';
import { writeRows } from './rows.ts';

/** Writes the ids and the identifiers of the events of a block. @param size `BLOCK` or `MERGED`. */
export async function writeBlock(
  tx: Transaction,
  from: number,
  events: readonly PlacedEvent[],
  size: number,
): Promise<void> {
  for (let start = from; start < from + size; start += BLOCK) {
    const within = events.filter(({ position }) => position >= start && position < start + BLOCK);
    if (within.length > 0) await run(tx, { text: WRITE_IDS, values: [start, idsOf(within)] });
  }
  const postings = postingsOf(
    events.map((event) => ({
      ordinal: event.position - from,
      identifiers: identifiersOf(event.id, event, event),
    })),
  );
  await writeRows(tx, from, rowsOf(postings, size));
}

const BYTES_OF_AN_ID = 16;

/** The ids of a block in hexadecimal, one for each position: zeros where there is no event. */
function idsOf(events: readonly PlacedEvent[]): string {
  const ids = Array.from({ length: BLOCK }, () => '0'.repeat(2 * BYTES_OF_AN_ID));
  for (const { position, id } of events) ids[position % BLOCK] = id.replaceAll('-', '');
  return ids.join('');
}

const WRITE_IDS = `
  insert into event_blocks (from_position, event_ids) values ($1::float8::bigint, decode($2::text, 'hex'))
  on conflict (from_position) do update set event_ids = excluded.event_ids`;

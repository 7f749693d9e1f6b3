import { eventBlocks } from '../../../drizzle/schema.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { BLOCK, postingsOf, rowsOf } from './block.ts';
import { identifiersOf } from './identifier.ts';
import type { NumberedEvent } from './read-events.ts';
import { writeRows } from './rows.ts';

/** Writes the ids and the identifiers of the events of a block. @param size `BLOCK` or `MERGED`. */
export async function writeBlock(
  tx: Transaction,
  from: number,
  events: readonly NumberedEvent[],
  size: number,
): Promise<void> {
  for (let start = from; start < from + size; start += BLOCK) {
    const within = events.filter(({ seq }) => seq >= start && seq < start + BLOCK);
    if (within.length === 0) continue;
    const eventIds = idsOf(within);
    await tx
      .insert(eventBlocks)
      .values({ fromSeq: start, eventIds })
      .onConflictDoUpdate({ target: eventBlocks.fromSeq, set: { eventIds } });
  }
  const postings = postingsOf(
    events.map((event) => ({
      ordinal: event.seq - from,
      identifiers: identifiersOf(event.id, event, event),
    })),
  );
  await writeRows(tx, from, rowsOf(postings, size));
}

const BYTES_OF_AN_ID = 16;

/** The ids of a block, one for each number: zeros where there is no event. */
function idsOf(events: readonly NumberedEvent[]): Buffer {
  const ids = Buffer.alloc(BLOCK * BYTES_OF_AN_ID);
  for (const { seq, id } of events) ids.write(id.replaceAll('-', ''), (seq % BLOCK) * BYTES_OF_AN_ID, 'hex');
  return ids;
}

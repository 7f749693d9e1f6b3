import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';

/** Rows of the journal that one transaction reads of a lane at most: so many more may be left. */
const ROWS_OF_LANE = 10_000;

/**
 * Adds what is new in the journals of the lanes to their totals and to the minutes of their topics, and moves heads over events
 * that are for others, until all is read or the time is up. Any number of processes may do so; all but one do nothing.
 *
 * @param now overrides the database's clock in tests.
 */
export async function rollUpJournal(db: Database, until: number, now?: Date): Promise<void> {
  let read: number;
  do {
    read = await db.transaction(async (tx) => {
      await limitStatements(tx);
      const [row] = await run<{ read: number }>(tx, {
        text: 'select postbud_roll_up_1($1::text::timestamptz)::float8 as read',
        values: [now?.toISOString() ?? null],
      });
      return row!.read;
    });
  } while (read >= ROWS_OF_LANE && Date.now() < until);
}

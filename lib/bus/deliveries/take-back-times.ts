import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { log } from '../../platform/log.ts';

/**
 * Takes back the times that only a clock which was ahead explains: those at which lanes, retries, probes and operations are
 * due, and those of events that wait for their places. Without it, five seconds of a clock that is two hours ahead stop lanes for
 * two hours.
 *
 * The transaction is recorded in `set_aside`, which makes it an incident. Any number of relays may do so at once.
 */
export async function takeBackTimes(db: Database): Promise<void> {
  const taken = await db.transaction(async (tx) => {
    await limitStatements(tx);
    const [row] = await run<{ taken: Readonly<Record<string, number | null>> | null }>(tx, {
      text: 'select postbud_take_back_times_2() as taken',
      values: [],
    });
    return row!.taken;
  });
  if (taken) log('warn', 'the database’s clock was ahead; the times that it left are taken back', taken);
}

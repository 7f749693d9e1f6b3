import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { sleep } from '../../platform/time.ts';

/**
 * Watches a database for work, without looking for it: a glance costs it a tenth of a turn. It sees that an event waits for
 * its fan-out, and that a lane has become due. Some are due for long, since nobody has a handler for them.
 */
export function glancesAt(db: Database) {
  /** When the lane became due that was the last to do so, in epoch milliseconds of the database. */
  let newestDue = -Infinity;

  const seesWork = async () => {
    const [row] = await run<{ awaits: boolean; due: number | null }>(driverOf(db), GLANCE);
    const due = row!.due ?? -Infinity;
    const isNew = due > newestDue;
    newestDue = due;
    return row!.awaits || isNew;
  };

  /** Returns when there may be work, when the time has come, or when the signal aborts. @throws the driver's error */
  return async (everyMs: number, until: number, stop: AbortSignal | undefined) => {
    for (;;) {
      await sleep(Math.min(everyMs, until - Date.now()), stop);
      if (Date.now() >= until || stop?.aborted || (await seesWork())) return;
    }
  };
}

const GLANCE = {
  name: 'glance',
  text: `
    select exists (select from awaiting_fan_out order by number desc limit 1) as awaits, (
        select extract(epoch from due_at)::float8 * 1000 from lanes where due_at <= now() order by due_at desc limit 1
      ) as due`,
  values: [],
  limitMs: TURN_LIMIT_MS,
  isTurn: true,
} as const;

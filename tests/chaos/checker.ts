import type { History } from './history.ts';
import { withinAttempts } from './promises/attempts.ts';
import { delivered, readable } from './promises/delivered.ts';
import { exactlyOnce } from './promises/effects.ts';
import { backfilled } from './promises/backfills.ts';
import { halted } from './promises/halts.ts';
import { byTheHolder, withinLease } from './promises/leases.ts';
import { limited } from './promises/limits.ts';
import { inOrder } from './promises/order.ts';
import { waitedOut } from './promises/outages.ts';
import type { Violation } from './promises/promises.ts';
import { refused } from './promises/refusals.ts';
import { consistent, historyKept } from './promises/records.ts';
import { survived, withoutDeadlocks } from './promises/survival.ts';
import { timed } from './promises/timers.ts';
import { Reading } from './reading.ts';

/**
 * Holds a history to the promises of the bus.
 *
 * @returns what was broken, in the order of the promises.
 */
export function violations(history: History): Violation[] {
  const read = new Reading(history);
  return [
    ...delivered(read),
    ...inOrder(read),
    ...withinLease(read),
    ...byTheHolder(read),
    ...withinAttempts(read),
    ...exactlyOnce(read),
    ...consistent(read),
    ...historyKept(read),
    ...withoutDeadlocks(read),
    ...survived(read),
    ...readable(read),
    ...halted(read),
    ...waitedOut(read),
    ...backfilled(read),
    ...refused(read),
    ...timed(read),
    ...limited(read),
  ];
}

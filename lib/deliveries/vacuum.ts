import type { Database } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';

/** Events fanned out since the last time. */
const since = new WeakMap<Database, number>();

/**
 * Vacuums the tables that a look for work reads from their beginning, after so many events.
 *
 * What is deleted there stays in the index until a vacuum, and each look walks past it: after a million events a single
 * one took 30 ms where it takes 2. Autovacuum comes once a minute; these tables are small, and a vacuum takes 2 ms.
 *
 * @param fannedOut events fanned out since the last call.
 * @param every vacuum after so many.
 */
export async function vacuumAfter(db: Database, fannedOut: number, every: number): Promise<void> {
  const events = (since.get(db) ?? 0) + fannedOut;
  since.set(db, events >= every ? 0 : events);
  if (events < every) return;
  // Whoever may not, or finds it under way, leaves it to autovacuum.
  await run(driverOf(db), { text: VACUUM, values: [] }).catch(() => undefined);
}

const VACUUM = 'vacuum (skip_locked, index_cleanup on, truncate off) awaiting_fan_out, lanes';

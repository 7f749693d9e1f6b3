import { onDue } from '../../platform/db/commits.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';

/** How often a process looks for timers that others may have set since, even if it knows of none that is due. */
const LOOK_EVERY_MS = 1 * SECOND;

/** How soon a relay begins where something is due that an open transaction holds, or another process releases. */
const LOOK_AGAIN_MS = 100;

/** Timers of one transaction. */
const BATCH = 900;

interface Known {
  readonly now: string | null;
  /** When to look again, by `performance.now()`. */
  readonly lookAt: number;
  /** When a relay has to begin for the next timer, by `performance.now()`; Infinity where none is known. */
  readonly dueAt: number;
}

const known = new WeakMap<Database, Known>();

/** Databases in which this process may have set a timer since it looked. */
const owed = new WeakSet<Database>();

/**
 * Releases the timers that are due: each becomes an event, in the order of times. Beside the turns and not in them, so that
 * timers that are not due cost a turn nothing.
 *
 * @param now overrides the database's clock in tests; ISO 8601. For each new one it looks at once.
 * @returns how many events there are to be placed.
 */
export async function releaseTimers(db: Database, now: string | null): Promise<number> {
  const before = known.get(db);
  // What only emits is known by its events.
  if (!before) onDue(db, (sent) => void (sent ?? owed.add(db)));
  const at = performance.now();
  if (!owed.delete(db) && before?.now === now && at < before.lookAt) return 0;
  known.set(db, { now, lookAt: at + LOOK_EVERY_MS, dueAt: before?.dueAt ?? Infinity });
  const [row] = await run<{ released: number; next_in_ms: number | null }>(driverOf(db), {
    name: 'release_timers',
    text: RELEASE,
    values: [now, BATCH],
    limitMs: TURN_LIMIT_MS,
  });
  const { released, next_in_ms: nextInMs } = row!;
  const lookAt = performance.now() + Math.min(nextInMs ?? Infinity, LOOK_EVERY_MS);
  const dueAt = performance.now() + Math.max(nextInMs ?? Infinity, LOOK_AGAIN_MS);
  known.set(db, { now, lookAt, dueAt });
  return released;
}

/** For how long no relay has to begin for a timer that this process knows of. */
export function nextTimerInMs(db: Database): number {
  return Math.max(0, (known.get(db)?.dueAt ?? Infinity) - performance.now());
}

const RELEASE = 'select released, next_in_ms from postbud_release_timers_1($1::text::timestamptz, $2::int)';

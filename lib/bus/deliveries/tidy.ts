import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';

/** How often a process tidies up. */
const EVERY_MS = 1 * SECOND;

interface LastTime {
  /** By `performance.now()`. */
  readonly at: number;
  readonly now: string | null;
  /** By the database's clock, as text. */
  readonly until: string | null;
}

const lastTimes = new WeakMap<Database, LastTime>();

/**
 * Makes the lanes due of relays that died, and folds counters: once a second in each process, beside its turns and not in
 * them, so that no event waits for it.
 *
 * @param now overrides the database's clock in tests; ISO 8601. For each new one it does so at once.
 * @returns how many lanes are due by it.
 */
export async function tidy(db: Database, now: string | null): Promise<number> {
  const last = lastTimes.get(db);
  const at = performance.now();
  if (last?.now === now && at - last.at < EVERY_MS) return 0;
  lastTimes.set(db, { at, now, until: last?.until ?? null });
  const [row] = await run<{ rescued: number; until: string }>(driverOf(db), {
    name: 'tidy',
    text: TIDY,
    values: [now, now === null ? (last?.until ?? null) : null],
    limitMs: TURN_LIMIT_MS,
  });
  lastTimes.set(db, { at, now, until: now === null ? row!.until : null });
  return row!.rescued;
}

const TIDY = `
  select now_at::text as until, rescued from postbud_tidy_1($1::text::timestamptz, $2::text::timestamptz)`;

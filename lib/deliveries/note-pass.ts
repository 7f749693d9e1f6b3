import type { Database } from '../db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../db/statement.ts';
import { SECOND } from '../time.ts';

/** How often a process notes that it passed. */
const EVERY_MS = 1 * SECOND;

interface Pass {
  /** By `performance.now()`. */
  readonly at: number;
  readonly now: string | null;
  /** By the database's clock, as text. */
  readonly until: string | null;
}

const passes = new WeakMap<Database, Pass>();

/** What noting a pass brought to light. */
export interface NotedPass {
  /** Lanes that are due because the relay that held them died. */
  readonly rescued: number;
  /** Whether the clock was ahead and is back; see `takeBackTimes`. */
  readonly isClockBack: boolean;
}

const NOTHING: NotedPass = { rescued: 0, isClockBack: false };

/**
 * Notes that a relay runs, makes the lanes due of relays that died, and folds counters: once a second in each process, beside
 * its turns and not in them, so that no event waits for it.
 *
 * @param now overrides the database's clock in tests; ISO 8601. Each new one is a pass of its own.
 */
export async function notePass(db: Database, now: string | null): Promise<NotedPass> {
  const last = passes.get(db);
  const at = performance.now();
  if (last?.now === now && at - last.at < EVERY_MS) return NOTHING;
  passes.set(db, { at, now, until: last?.until ?? null });
  const [row] = await run<NotedPass & { until: string }>(driverOf(db), {
    name: 'note_pass',
    text: NOTE_PASS,
    values: [now, now === null ? (last?.until ?? null) : null],
    limitMs: TURN_LIMIT_MS,
  });
  passes.set(db, { at, now, until: now === null ? row!.until : null });
  return row!;
}

const NOTE_PASS = `
  select now_at::text as until, rescued, is_clock_back as "isClockBack"
  from postbud_note_pass_1($1::text::timestamptz, $2::text::timestamptz)`;

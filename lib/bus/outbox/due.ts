import { DAY, msOf } from '../../platform/time.ts';

/** How far ahead a timer may be set; `postbud_set_timer_1` says the same, by the database's clock. */
const FARTHEST_MS = 366 * DAY;

/** When an event is to happen: an instant, or a time from now by the database's clock. One of the two is null. */
export interface Due {
  /** ISO 8601. */
  readonly at: string | null;
  readonly afterMs: number | null;
}

/** Reads `at` of an emit. @returns what would be right, for a value that is neither. */
export function readDue(at: Date | string): Due | { readonly expected: string } {
  const afterMs = typeof at === 'string' ? msOf(at) : 0;
  const ms = afterMs > 0 ? Date.now() + afterMs : msOfInstant(at);
  if (Number.isNaN(ms) || ms < 0)
    return { expected: 'expected an instant such as 2026-03-13T16:00:00Z, or a duration such as 24h' };
  if (ms > Date.now() + FARTHEST_MS) return { expected: 'expected an instant at most a year ahead' };
  return afterMs > 0 ? { at: null, afterMs } : { at: new Date(ms).toISOString(), afterMs: null };
}

/** When it is due, by this process's clock. In milliseconds since the epoch. */
export function dueMsOf({ at, afterMs }: Due): number {
  return at === null ? Date.now() + afterMs! : Date.parse(at);
}

function msOfInstant(at: unknown): number {
  if (at instanceof Date) return at.getTime();
  // Without an offset it would be another instant in each time zone.
  const isInstant = typeof at === 'string' && /^\d{4}-\d\d-\d\dT.*(?:Z|[+-]\d\d:\d\d)$/i.test(at);
  return isInstant ? Date.parse(at) : Number.NaN;
}

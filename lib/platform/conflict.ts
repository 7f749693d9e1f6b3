/** SQLSTATEs of a transaction that Postgres gave up for another's sake: a serialization failure, and a deadlock. */
const CONFLICTS: ReadonlySet<unknown> = new Set(['40001', '40P01']);

/** Whether an error says that the same transaction may succeed when it runs again at once. */
export function isConflict(error: unknown): boolean {
  try {
    if (!(error instanceof Error)) return false;
    // Drizzle wraps the driver's error in one without a code.
    if ('code' in error && typeof error.code === 'string') return CONFLICTS.has(error.code);
    return isConflict(error.cause);
  } catch {
    // A handler may throw an object that cannot be read.
    return false;
  }
}

/** How often a transaction, or a handler, runs at once before its conflict counts as its error. */
export const MOST_RUNS = 10;

/** How long to wait before a transaction runs again, so that two that met do not meet at the same moment again. */
export function jitterMs(run: number): number {
  return Math.random() * 10 * run;
}

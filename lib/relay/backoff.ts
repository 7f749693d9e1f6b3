import { DAY, HOUR, MINUTE } from '../time.ts';

/**
 * How long to wait after the first, second, … failed attempt, in milliseconds. With the usual 5 attempts the fifth
 * failure dead-letters, so only a subscription that declares 6 waits the day.
 */
const WAITS_MS = [1 * MINUTE, 5 * MINUTE, 30 * MINUTE, 6 * HOUR, 1 * DAY];

/** The wait after a failed attempt in milliseconds, or `null` when it was the last. @param attempt counted from 1. */
export function waitAfter(attempt: number, maxAttempts: number): number | null {
  return attempt < maxAttempts ? WAITS_MS[attempt - 1]! : null;
}

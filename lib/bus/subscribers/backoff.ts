import { DAY, HOUR, MINUTE } from '../../platform/time.ts';

/**
 * The waits after the first, second and further failed attempts, in milliseconds. With the default of 5 attempts the
 * fifth failure dead-letters, so only a subscription that declares 6 attempts ever waits the day.
 */
const WAITS_MS = [1 * MINUTE, 5 * MINUTE, 30 * MINUTE, 6 * HOUR, 1 * DAY];

/** Gives the wait after a failed attempt in milliseconds; null after the last. @param attempt counted from 1. */
export function waitAfter(attempt: number, maxAttempts: number): number | null {
  return attempt < maxAttempts ? WAITS_MS[attempt - 1]! : null;
}

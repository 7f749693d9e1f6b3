import { MINUTE, SECOND, sleep } from '../lib/platform/time.ts';
import type { Given } from './arguments.ts';
import type { Call } from './command.ts';
import { Unavailable } from './refusals.ts';

/** Longer than the first two retries, which come after 1 and 5 more minutes. */
const DEFAULT_SECONDS = 10 * (MINUTE / SECOND);

/** The options of every command that can wait for its outcome. */
export const WAIT = {
  wait: { help: 'follow until it is settled, and say how it ended; exits with 1 if anything failed' },
  timeout: {
    value: '<seconds>',
    help: `how long --wait waits (default: ${DEFAULT_SECONDS}); what is still open then exits with 1`,
  },
} as const;

/** Reads the limit of `--wait`. @throws Failure for a wrong one. */
export function waitLimitMs(given: Given): number {
  return (given.wholeNumber('timeout', 1, 24 * 3600) ?? DEFAULT_SECONDS) * SECOND;
}

/** Each look is a query by an index; an operator reads no faster. */
const EVERY_MS = 1 * SECOND;

/**
 * Looks each second until something is settled or the time is up, and shows how far it is. A server that does not answer
 * is asked again.
 *
 * @returns the last look. @throws Failure where no look has succeeded.
 */
export async function follow<View>(
  { terminal }: Call,
  limitMs: number,
  look: () => Promise<View>,
  {
    isSettled,
    words,
  }: { readonly isSettled: (view: View) => boolean; readonly words: (view: View) => string },
): Promise<View> {
  const endsAt = Date.now() + limitMs;
  let last: { readonly view: View } | null = null;
  try {
    for (;;) {
      let waitMs = EVERY_MS;
      try {
        last = { view: await look() };
        if (isSettled(last.view)) return last.view;
        terminal.progress(words(last.view));
      } catch (error) {
        if (!(error instanceof Unavailable) || Date.now() >= endsAt) throw error;
        waitMs = Math.max(waitMs, error.retryAfterMs ?? 0);
        terminal.progress(error.message);
      }
      if (Date.now() >= endsAt && last) return last.view;
      await sleep(Math.max(0, Math.min(waitMs, endsAt - Date.now())));
    }
  } finally {
    terminal.progress(null);
  }
}

import type { Database } from '../db/connect.ts';
import type { AttachedSubscriber } from '../subscribers/subscriber.ts';
import { SECOND } from '../time.ts';
import { relay } from './relay.ts';

export interface KickOptions {
  readonly db: Database;
  readonly subscribers: readonly AttachedSubscriber[];
  /** Keeps the host awake until the promise settles; on Vercel `waitUntil` of `@vercel/functions`. */
  readonly waitUntil: (work: Promise<void>) => void;
  /** Told when the database fails under the relay; the next kick or tick tries again. */
  readonly onError: (error: unknown) => void;
  /** Whether each delivery, and each run of the relay, leaves a line in the log. */
  readonly isLogged?: boolean;
}

/** What one kick may take: long enough for a burst, well within what a function that answered may still run. */
const KICK_BUDGET_MS = 10 * SECOND;

/**
 * Makes the function to call after a commit that emitted: it has a relay run at once, so that an event need not wait
 * for the next tick. Kicks while one runs are answered by one more run after it.
 */
export function createKick({
  db,
  subscribers,
  waitUntil,
  onError,
  isLogged = false,
}: KickOptions): () => void {
  let isRunning = false;
  let isWanted = false;
  const drain = async () => {
    try {
      while (isWanted) {
        isWanted = false;
        await relay({ db, subscribers, until: Date.now() + KICK_BUDGET_MS, isLogged });
      }
    } catch (error) {
      onError(error);
    } finally {
      isRunning = false;
    }
  };
  return () => {
    isWanted = true;
    if (isRunning) return;
    isRunning = true;
    waitUntil(drain());
  };
}

import type { Database } from '../db/connect.ts';
import { KICK_BUDGET_MS } from '../lifetime.ts';
import type { AttachedSubscriber } from '../subscribers/subscriber.ts';
import { sleep } from '../time.ts';
import { Bell } from './bell.ts';
import { relay } from './relay.ts';
import type { RelayOptions } from './relay.ts';

export interface KickOptions {
  readonly db: Database;
  readonly subscribers: readonly AttachedSubscriber[];
  /** Keeps the host awake until the promise settles; on Vercel `waitUntil` of `@vercel/functions`. */
  readonly waitUntil: (work: Promise<void>) => void;
  /** Told when the database fails under the relay; the next kick or tick tries again. */
  readonly onError: (error: unknown) => void;
  /** By when handlers must have ended where this is called, which is where the kick is; see `RelayOptions`. */
  readonly handlersUntil?: () => number;
  /** Whether each delivery, and each run of the relay, leaves a line in the log. */
  readonly isLogged?: boolean;
}

/** One kick: until when it may look for work, and by when its handlers must have ended. */
type Kick = Pick<RelayOptions, 'until' | 'handlersUntil'>;

/**
 * Makes the function to call after a commit that emitted: it has a relay run at once, so that an event need not wait
 * for the next tick.
 *
 * Each kick has one budget from the moment it comes, and the life of the function that it comes from. While the relay
 * of an earlier one looks for work it waits: that relay finds its event too. When that relay stops looking, the newest
 * kick goes on with what is left to it, also while the handlers of the earlier one still run; those before the newest
 * are answered by it.
 */
export function createKick({
  db,
  subscribers,
  waitUntil,
  onError,
  handlersUntil,
  isLogged = false,
}: KickOptions): () => void {
  let newest: Kick | null = null;
  /** Resolves when the relay that looks for work stops looking; null when none does. */
  let looking: Promise<void> | null = null;

  const answer = async (kick: Kick) => {
    if (looking) {
      await looking;
      if (kick !== newest) return;
    }
    const draining = drain(kick);
    looking = looksUntil(kick.until, draining);
    await draining;
  };

  const drain = async (kick: Kick) => {
    try {
      await relay({ db, subscribers, ...kick, isLogged });
    } catch (error) {
      onError(error);
    }
  };

  const looksUntil = async (until: number, draining: Promise<void>) => {
    const drained = new AbortController();
    await Promise.race([draining, sleep(until - Date.now(), drained.signal)]);
    drained.abort();
    looking = null;
  };

  return () => {
    Bell.of(db).ring();
    newest = { until: Date.now() + KICK_BUDGET_MS, handlersUntil: handlersUntil?.() };
    waitUntil(answer(newest));
  };
}

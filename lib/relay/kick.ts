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
  /** Called when the database fails under the relay; the next kick, or the cron, tries again. */
  readonly onError: (error: unknown) => void;
  /** Called with each kick: when its handlers must have ended; see `RelayOptions`. */
  readonly handlersUntil?: () => number;
  /** Whether each delivery, and each run of the relay, writes a line to the log. */
  readonly isLogged?: boolean;
}

/** One kick: how long its relay may look for work, and when its handlers must have ended. */
type Kick = Pick<RelayOptions, 'until' | 'handlersUntil'>;

/**
 * Makes the function to call after a commit that made deliveries due (see `onDue`). It runs a relay at once, so that an
 * event does not wait for the cron's next look.
 *
 * Each kick has one budget from the moment it arrives, and the life of the function that it arrives in. While the relay
 * of an earlier kick looks for work, the kick waits: that relay finds its event too. When that relay stops looking, the
 * newest kick runs another one with the rest of its budget, even while handlers of the earlier one still run. It covers
 * all kicks before it.
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
  /** Resolves when the relay that looks for work stops looking; null when none looks. */
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

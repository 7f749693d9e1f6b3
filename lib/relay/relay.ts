import type { Database } from '../db/connect.ts';
import { subscriptionsOf } from '../deliveries/subscription.ts';
import { vacuumAfter } from '../deliveries/vacuum.ts';
import type { AttachedSubscriber } from '../subscribers/subscriber.ts';
import { inTickSpan } from '../telemetry/tick.ts';
import { ClaimLoop } from './claim-loop.ts';

export interface RelayOptions {
  readonly db: Database;
  /** Who is attached. The lanes of all others wait. */
  readonly subscribers: readonly AttachedSubscriber[];
  /** When to begin nothing more, in milliseconds since the epoch. */
  readonly until: number;
  /**
   * By when every handler must have ended, in milliseconds since the epoch; without it there is no bound. One whose time
   * limit ends later is not begun, and its lane waits for a relay that has the time.
   */
  readonly handlersUntil?: number | undefined;
  /** Overrides the database's clock, in tests only. */
  readonly now?: number | Date | (() => number | Date);
  /** Aborts at once: what runs is cut off and counts as not tried. */
  readonly signal?: AbortSignal;
  /** Whether each delivery, and the whole, leaves a line in the log. */
  readonly isLogged?: boolean;
}

/** What a relay did, counted from what the database confirmed. */
export interface RelayReport {
  fannedOut: number;
  delivered: number;
  /** Attempts that failed and will be made again. */
  failed: number;
  /** Attempts whose handler asked for time with `RetryAfter`. */
  waited: number;
  deadLettered: number;
  /** Lanes that another relay took while this one held them. */
  leasesLost: number;
  ticks: number;
  /** The earliest retry that this relay set, in epoch milliseconds; null when it set none. */
  nextRetryAt: number | null;
}

/**
 * Claim loops that a busy relay runs besides its first: while the database settles what one has done, another has its
 * handlers run, and a third claims. More gain nothing; each costs a connection.
 */
const MAX_OTHER_LOOPS = 2;

/** A relay that has come to its end vacuums after so many events; one that is busy after ten times as many. */
const VACUUM_WHEN_IDLE = 1000;

/**
 * Delivers what is due, until nothing is or the time is up: fans out, claims, delivers, settles, and again.
 *
 * Any number of relays may run at once, in one process or many. What is in the hands of a relay that dies is
 * delivered by another when its leases have run out. Handlers that run when the time is up are waited for, up to
 * their own limits.
 *
 * @throws TypeError when a subscription is attached twice; what the database throws when it is down.
 */
export async function relay(options: RelayOptions): Promise<RelayReport> {
  return await inTickSpan(options.isLogged === true, () => drain(options));
}

async function drain(options: RelayOptions): Promise<RelayReport> {
  const report: RelayReport = {
    fannedOut: 0,
    delivered: 0,
    failed: 0,
    waited: 0,
    deadLettered: 0,
    leasesLost: 0,
    ticks: 0,
    nextRetryAt: null,
  };
  const subscriptions = subscriptionsOf(options.subscribers);
  const others = new Set<Promise<void>>();
  const startAnother = () => {
    if (others.size === MAX_OTHER_LOOPS) return;
    const other = new ClaimLoop(options, subscriptions, report).run().finally(() => others.delete(other));
    // It is told when it is waited for.
    other.catch(() => undefined);
    others.add(other);
  };
  try {
    await new ClaimLoop(options, subscriptions, report, startAnother).run();
  } finally {
    await Promise.all(others);
  }
  await vacuumAfter(options.db, 0, VACUUM_WHEN_IDLE);
  return report;
}

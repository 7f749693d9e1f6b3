import type { Database } from '../db/connect.ts';
import { subscriptionsOf } from '../deliveries/subscription.ts';
import { vacuumAfter } from '../deliveries/vacuum.ts';
import { LogBatch } from '../log.ts';
import type { AttachedSubscriber } from '../subscribers/subscriber.ts';
import { inRelaySpan } from '../telemetry/relay.ts';
import { ClaimLoop } from './claim-loop.ts';
import type { Relaying } from './leased-lanes.ts';
import { RelayTime } from './relay-time.ts';
import { Absences } from './presence.ts';
import { emptyReport } from './report.ts';
import type { RelayReport } from './report.ts';

export type { RelayReport };

export interface RelayOptions {
  readonly db: Database;
  /** The attached subscribers. The lanes of all others wait. */
  readonly subscribers: readonly AttachedSubscriber[];
  /** When to stop claiming and starting handlers, in milliseconds since the epoch. */
  readonly until: number;
  /**
   * When every handler must have ended, in milliseconds since the epoch; never by default. A handler whose time limit
   * ends later is not started: its lane waits for a relay with enough time.
   */
  readonly handlersUntil?: number | undefined;
  /** Overrides the database's clock, in tests only. */
  readonly now?: number | Date | (() => number | Date);
  /** Aborts at once: running handlers are cut off, and their attempts do not count. */
  readonly signal?: AbortSignal;
  /** Whether each delivery, and each run of the relay, writes a line to the log. */
  readonly isLogged?: boolean;
  /** Called after each turn that the database answered. */
  readonly onTurn?: () => void;
}

/**
 * Claim loops that a busy relay runs in addition to its first: while the database settles for one loop, handlers run in
 * another, and a third claims. More loops gain nothing; each costs a connection.
 */
const MAX_OTHER_LOOPS = 2;

/** Events fanned out after which a relay vacuums when it ends; a busy one does after ten times as many. */
const VACUUM_WHEN_IDLE = 1000;

/**
 * Delivers due deliveries until nothing is due or the time is up. See `ClaimLoop` for its steps.
 *
 * Any number of relays may run at once, in one process or many. When a relay dies, another one delivers its claimed
 * deliveries once the leases have run out. When the time is up, running handlers are awaited up to their own limits.
 *
 * @throws TypeError when a subscription is attached twice; the driver's error when the database is unreachable.
 */
export async function relay(options: RelayOptions): Promise<RelayReport> {
  return await inRelaySpan(options.isLogged === true, () => drain(options));
}

async function drain(options: RelayOptions): Promise<RelayReport> {
  const relaying: Relaying = {
    db: options.db,
    subscriptions: subscriptionsOf(options.subscribers),
    time: new RelayTime(options),
    report: emptyReport(),
    lines: options.isLogged ? new LogBatch() : undefined,
    onTurn: options.onTurn,
    absences: new Absences(),
  };
  const failures: unknown[] = [];
  const fail = (error: unknown) => void failures.push(error);
  const others = new Set<Promise<void>>();
  const startAnother = () => {
    if (others.size === MAX_OTHER_LOOPS) return;
    const other = new ClaimLoop(relaying)
      .run()
      .catch(fail)
      .finally(() => others.delete(other));
    others.add(other);
  };
  await new ClaimLoop(relaying, startAnother).run().catch(fail);
  // All of them, also when one has failed: the others have lanes in hand.
  await Promise.all(others);
  if (failures.length > 0) throw failures[0];
  await vacuumAfter(options.db, 0, VACUUM_WHEN_IDLE);
  return relaying.report;
}

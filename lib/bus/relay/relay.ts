import type { Database } from '../../platform/db/connect.ts';
import { LogBatch } from '../../platform/log.ts';
import { inRelaySpan } from '../../platform/telemetry/relay.ts';
import { publishNewLimits } from '../deliveries/limits.ts';
import { subscriptionsOf } from '../deliveries/subscription.ts';
import type { AttachedSubscriber } from '../subscribers/subscriber.ts';
import { bellOf, Calls } from './bell.ts';
import type { Bell } from './bell.ts';
import { Loops } from './loops.ts';
import { RelayTime } from './relay-time.ts';
import type { TimeOptions } from './relay-time.ts';
import { emptyReport } from './report.ts';
import type { RelayReport } from './report.ts';
import type { Relaying } from './runs.ts';

export type { RelayReport };

export interface RelayOptions extends TimeOptions {
  readonly db: Database;
  /** The attached subscribers. The lanes of all others wait. */
  readonly subscribers: readonly AttachedSubscriber[];
  /** Whether each delivery, and each run of the relay, writes a line to the log. */
  readonly isLogged?: boolean;
  /** Called after each turn that the database answered, with what the relay has done so far. */
  readonly onTurn?: (report: RelayReport) => void;
  /** Wakes the relay; by default the one of the database. */
  readonly bell?: Bell;
  /** Called when the relay looks for work no more. Handlers may still run. */
  readonly onLooked?: () => void;
}

/**
 * Delivers due deliveries until nothing is due or the time is up. See `Loops` and `ClaimLoop`.
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
  await publishNewLimits(options.db, options.subscribers);
  const relaying: Relaying = {
    db: options.db,
    subscriptions: subscriptionsOf(options.subscribers),
    time: new RelayTime(options),
    report: emptyReport(),
    lines: options.isLogged ? new LogBatch() : undefined,
    onTurn: options.onTurn,
    bell: options.bell ?? bellOf(options.db),
    calls: options.bell?.calls ?? new Calls(true),
    inHand: new Set(),
    looks: { heard: 0, leavesOut: false },
  };
  await new Loops(relaying, options.onLooked).run();
  return relaying.report;
}

import type { Database } from '../../platform/db/connect.ts';
import type { LogBatch } from '../../platform/log.ts';
import { SECOND } from '../../platform/time.ts';
import type { ClaimedDelivery, ClaimedLane } from '../deliveries/claim.ts';
import { previousOf } from '../deliveries/previous.ts';
import type { PreviousDelivery } from '../deliveries/previous.ts';
import type { DeliveredAttempt } from '../deliveries/settle.ts';
import type { Subscription } from '../deliveries/subscription.ts';
import type { AttachedSubscriber, PreviousEvent } from '../subscribers/subscriber.ts';
import { Lease } from './lease.ts';
import { portionOf } from './portion.ts';
import type { Absences } from './presence.ts';
import { Progress } from './progress.ts';
import type { RelayTime } from './relay-time.ts';

/** The options that all runs of a claim loop share. */
export interface RunOptions {
  readonly db: Database;
  readonly time: RelayTime;
  /**
   * The database's clock in epoch milliseconds, or a little behind it, so that an attempt which begins after a claim is
   * recorded as begun after everything that was settled before the claim.
   */
  readonly clock: () => number;
  /** The same, or a little ahead of it: a lease measured by it ends early, never late. */
  readonly leaseClock: () => number;
  /** Whether to start no further handler. */
  readonly isOver: () => boolean;
  /** Counts deliveries that transactional handlers have settled. */
  readonly countCommitted: (subscription: Subscription, delivered: readonly DeliveredAttempt[]) => void;
  /** Of all loops of the relay. */
  readonly absences: Absences;
  /** Collects a line for each attempt, where the relay is logged. */
  readonly lines?: LogBatch | undefined;
}

/** After this long a lane is released, so that one long backlog leaves room for the others. */
const SLICE_MS = 5 * SECOND;

/** An attempt whose handler runs. */
interface Running {
  readonly place: number;
  moveTo(state: RunState): void;
}

/** A claimed lane during its run: its lease, its progress, and whether a further handler may start. */
export class RunState {
  readonly lane: ClaimedLane;
  readonly options: RunOptions;
  readonly lease: Lease;
  readonly progress: Progress;
  /** The attempts whose handlers returned a promise, until their outcomes are recorded, when `ended` resolves. */
  readonly underWay = new Map<Running, { readonly beganAt: number; readonly ended: Promise<unknown> }>();
  /** Whether the slice ended before the claimed deliveries did: the claim was too large for such slow handlers. */
  isCutShort = false;
  /** Whether no further handler starts, because keys with running handlers have moved to lanes of their own. */
  isLeft = false;
  /** Whether its lease had ended before it was extended, so that no further handler starts. */
  hasLapsed = false;
  /** Read for components elsewhere only: handlers in process share the bus's database. By position. */
  previous: ReadonlyMap<number, PreviousDelivery> | null = null;
  readonly #beganAt = performance.now();

  constructor(lane: ClaimedLane, claimedAtMs: number, options: RunOptions) {
    this.lane = lane;
    this.options = options;
    this.lease = new Lease(claimedAtMs, lane.subscription.leaseMs, options.leaseClock, options.time.signal);
    this.progress = new Progress(lane);
  }

  get isAborted(): boolean {
    return this.options.time.signal?.aborted === true;
  }

  /** Whether a delivery's next attempt is not due yet. */
  isEarly({ nextAttemptAtMs }: ClaimedDelivery): boolean {
    return nextAttemptAtMs !== null && nextAttemptAtMs > this.options.clock();
  }

  /** Whether this release can read a delivery's payload. */
  isReadable({ event }: ClaimedDelivery): boolean {
    return event.version <= this.lane.subscription.version;
  }

  /**
   * Reads which deliveries come before the claimed ones.
   *
   * @returns false when the database did not answer. Nothing has begun then, and the lane is released.
   */
  async readPrevious(): Promise<boolean> {
    try {
      this.previous = await previousOf(this.options.db, this.lane);
      return true;
    } catch (error) {
      portionOf(this.options.db).shrinkAfter(error);
      return false;
    }
  }

  /** Gives the event before a claimed one in its order. What this run gave up is not in the database yet. */
  previousOf(place: number): PreviousEvent | null {
    const previous = this.previous?.get(this.progress.claimed[place]!.position);
    if (!previous) return null;
    const { eventId: id, isDead, position } = previous;
    return { id, wasSkipped: isDead || this.progress.isGivenUp(position) };
  }

  /** Whether there is time to start a handler. Once there is not, none starts for the rest of the run. */
  hasTime(): boolean {
    const { isOver, time } = this.options;
    if (this.isLeft || this.hasLapsed || this.lease.isLost || this.isAborted || isOver() || this.#isSilent())
      return false;
    if (performance.now() - this.#beganAt > SLICE_MS) {
      this.isCutShort = true;
      return false;
    }
    return time.fits(this.#subscriber.timeoutMs);
  }

  noteAnswer(): void {
    if (this.#subscriber.outage === 'wait') this.options.absences.forget(this.#subscriber.name);
  }

  /** Whether the subscriber seems not to be there, which a probe finds out. */
  #isSilent(): boolean {
    const { name, outage } = this.#subscriber;
    return outage === 'wait' && !this.lane.isProbe && this.options.absences.areEnough(name);
  }

  get #subscriber(): AttachedSubscriber {
    return this.lane.subscription.subscriber;
  }
}

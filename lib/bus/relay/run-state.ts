import type { Database } from '../../platform/db/connect.ts';
import type { LogBatch } from '../../platform/log.ts';
import { SECOND } from '../../platform/time.ts';
import type { Subscription } from '../deliveries/subscription.ts';
import { Lease } from './lease.ts';
import type { RelayTime } from './relay-time.ts';
import type { ClaimedDelivery, ClaimedLane } from '../deliveries/claim.ts';
import { previousOf } from '../deliveries/previous.ts';
import type { PreviousDelivery } from '../deliveries/previous.ts';
import type { DeliveredAttempt } from '../deliveries/settle.ts';
import type { PreviousEvent } from '../subscribers/subscriber.ts';
import { portionOf } from './portion.ts';
import { Progress } from './progress.ts';
import type { InHand } from './progress.ts';

/** The options that all runs of a claim loop share. */
export interface RunOptions {
  readonly db: Database;
  readonly time: RelayTime;
  /** Whether to start no further handler. */
  readonly isOver: () => boolean;
  /** Counts deliveries that transactional handlers have settled. */
  readonly countCommitted: (subscription: Subscription, delivered: readonly DeliveredAttempt[]) => void;
  /** Has the next turn ask for the topics to which a handler's transaction has emitted; without them, for all. */
  readonly owe: (topics?: Iterable<string>) => void;
  /** Collects a line for each attempt, where the relay is logged. */
  readonly lines?: LogBatch | undefined;
}

/** The database's clocks, as the runs of a turn's lanes read them. */
export interface Clocks {
  /**
   * The database's clock in epoch milliseconds, or a little behind it, so that an attempt which begins after a claim is
   * recorded as begun after everything that was settled before the claim.
   */
  readonly clock: () => number;
  /** The same, or a little ahead of it: a lease measured by it ends early, never late. */
  readonly leaseClock: () => number;
}

/** After this long a lane is released, so that one long backlog leaves room for the others. */
const SLICE_MS = 5 * SECOND;

/** A claimed lane during its run: its lease, its progress, and whether a further handler may start. */
export class RunState {
  lane: ClaimedLane;
  readonly options: RunOptions;
  readonly lease: Lease;
  readonly progress: Progress;
  clocks: Clocks;
  /** Whether the slice ended before the claimed deliveries did: the claim was too large for such slow handlers. */
  isCutShort = false;
  /** Whether its lease had ended before it was extended, so that no further handler starts. */
  hasLapsed = false;
  /** Number of the journal's newest row, as this relay knows it. */
  number: number;
  /** Whether it is unknown if the last commit of its handlers was made, or its last claim, with which it was to go on. */
  isDoubtful = false;
  /** Whether handlers run in a transaction, which settles them: no turn may settle anything of the lane meanwhile. */
  isInTransaction = false;
  /** Read for components elsewhere only: handlers in process share the bus's database. By position. */
  previous: ReadonlyMap<number, PreviousDelivery> | null = null;
  /** Resolves when the outcome that a turn has taken is settled; null while none is on its way. */
  #settled: Promise<void> | null = null;
  #whenSettled: () => void = () => undefined;
  #beganAt = performance.now();

  constructor(lane: ClaimedLane, claimedAtMs: number, clocks: Clocks, options: RunOptions) {
    this.lane = lane;
    this.number = lane.number;
    this.clocks = clocks;
    this.options = options;
    const { leaseMs } = lane.subscription;
    this.lease = new Lease(claimedAtMs, leaseMs, () => this.clocks.leaseClock(), options.time.signal);
    this.progress = new Progress(lane);
  }

  /** Goes on with a further claim of the lane. */
  goOn(lane: ClaimedLane, clocks: Clocks): void {
    this.lane = lane;
    this.number = lane.number;
    this.clocks = clocks;
    this.#beganAt = performance.now();
    this.progress.add(lane);
  }

  /** Notes that an outcome is on its way: what a transaction settles has to come behind it in the journal. */
  beginSettling(): void {
    this.#settled = new Promise((resolve) => (this.#whenSettled = resolve));
  }

  endSettling(): void {
    this.#settled = null;
    this.#whenSettled();
  }

  /** Begins a time in which only transactions settle, once what is on its way is settled. */
  async beginTransaction(): Promise<void> {
    this.isInTransaction = true;
    await this.#settled;
  }

  get isAborted(): boolean {
    return this.options.time.signal?.aborted === true;
  }

  /** Whether a delivery's next attempt is not due yet. */
  isEarly({ nextAttemptAtMs }: ClaimedDelivery): boolean {
    return nextAttemptAtMs !== null && nextAttemptAtMs > this.clocks.clock();
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

  /** Gives the event before a claimed one in its order. What this run gave up may not be in the database yet. */
  previousOf({ delivery }: InHand): PreviousEvent | null {
    const previous = this.previous?.get(delivery.position);
    if (!previous) return null;
    const { eventId: id, isDead, position } = previous;
    return { id, wasSkipped: isDead || this.progress.isGivenUp(position) };
  }

  /** Whether there is time to start a handler. Once there is not, none starts for the rest of the run. */
  hasTime(): boolean {
    const { isOver, time } = this.options;
    if (this.hasLapsed || this.lease.isLost || this.isAborted || isOver()) return false;
    if (performance.now() - this.#beganAt > SLICE_MS) {
      this.isCutShort = true;
      return false;
    }
    return time.fits(this.lane.subscription.subscriber.timeoutMs);
  }
}

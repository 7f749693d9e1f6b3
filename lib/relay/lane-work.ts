import { maskPersonalData, personalTexts } from '../catalog/personal.ts';
import type { Database } from '../db/connect.ts';
import type { ClaimedDelivery, ClaimedLane } from '../deliveries/claim.ts';
import { errorGroupOf } from '../deliveries/error-group.ts';
import type { ErrorGroup } from '../deliveries/error-group.ts';
import type { LogBatch } from '../log.ts';
import { ObservedAttempt, isTraced } from '../telemetry/delivery.ts';
import { SECOND } from '../time.ts';
import { waitAfter } from './backoff.ts';
import { LEASE_EXPIRED, failureOf } from './failure.ts';
import type { Failure } from './failure.ts';
import { Lease } from './lease.ts';
import { Progress } from './progress.ts';
import type { Slots } from './slots.ts';

export interface DeliverOptions {
  readonly db: Database;
  /** Aborts what runs when the process is told to stop; what was cut off counts as not tried. */
  readonly signal: AbortSignal | undefined;
  /**
   * The database's clock, in epoch milliseconds, or a little behind it: what is begun after a claim is recorded as begun
   * after all that was settled before it.
   */
  readonly clock: () => number;
  /** The same, or a little ahead of it: a lease seen from here ends early, never late. */
  readonly leaseClock: () => number;
  /** Whether to begin no further delivery: the relay's time is up. */
  readonly isOver: () => boolean;
  /** Whether a handler with this time limit ends before its host does, if it is begun now. */
  readonly fits: (limitMs: number) => boolean;
  /** Bounds how many transactions run at once. */
  readonly transactions: Slots;
  /** Takes a line for each attempt, where one is wanted. */
  readonly lines?: LogBatch | undefined;
}

/** After this long a lane is let go, so that one long backlog leaves room for the others. */
const SLICE_MS = 5 * SECOND;

/** A delivery that is being attempted. */
export interface Attempt {
  /** The work that its outcome belongs to, and its place there: another one once its key has left the lane. */
  work: LaneWork;
  place: number;
  readonly delivery: ClaimedDelivery;
  /** When it began, by the database's clock, in epoch milliseconds. */
  readonly atMs: number;
  /** Null where nobody wants to know: that costs nothing, and there are tens of thousands a second. */
  readonly observed: ObservedAttempt | null;
}

/** An attempt whose handler takes its time. */
export interface LongAttempt {
  readonly attempt: Attempt;
  readonly beganAt: number;
  /** Resolves when its outcome is recorded. */
  readonly ended: Promise<void>;
}

/** A lane in hand: what one by one, shared commits and batches have in common. */
export class LaneWork {
  readonly lane: ClaimedLane;
  readonly options: DeliverOptions;
  readonly lease: Lease;
  readonly progress: Progress;
  /** Whether the slice was over before the batch was: the claim was too large for such slow handlers. */
  isCutShort = false;
  /** Whether nothing more is begun, since the lane is let go before all that was begun has ended. */
  isLeft = false;
  readonly underWay = new Set<LongAttempt>();
  readonly #whenWaiting: () => void;
  readonly #beganAt = performance.now();

  /** @param whenWaiting called when nothing more can be begun before the lease is made longer. */
  constructor(lane: ClaimedLane, claimedAtMs: number, options: DeliverOptions, whenWaiting: () => void) {
    this.lane = lane;
    this.options = options;
    this.lease = new Lease(claimedAtMs, lane.subscription.leaseMs, options.leaseClock, options.signal);
    this.progress = new Progress(lane);
    this.#whenWaiting = whenWaiting;
  }

  get isAborted(): boolean {
    return this.options.signal?.aborted === true;
  }

  /** Whether a delivery waits for its next attempt. */
  isEarly({ nextAttemptAtMs }: ClaimedDelivery): boolean {
    return nextAttemptAtMs !== null && nextAttemptAtMs > this.options.clock();
  }

  /** Whether this release can read a delivery's payload. */
  isReadable({ event }: ClaimedDelivery): boolean {
    return event.version <= this.lane.subscription.version;
  }

  /** Whether a handler may be begun, as far as time goes. Once it may not, none may for the rest of the run. */
  hasTime(): boolean {
    const { isOver, fits } = this.options;
    if (this.isLeft || this.lease.isLost || this.isAborted || isOver()) return false;
    if (performance.now() - this.#beganAt > SLICE_MS) {
      this.isCutShort = true;
      return false;
    }
    return fits(this.lane.subscription.subscriber.timeoutMs);
  }

  /** Waits for the lease, where it is too short. @returns false when the lane is no longer ours. */
  async leaseHasTime(): Promise<boolean> {
    return await this.lease.hasTime(this.#whenWaiting);
  }

  begin(place: number): Attempt {
    const delivery = this.progress.claimed[place]!;
    const atMs = this.options.clock();
    return { work: this, place, delivery, atMs, observed: this.#observed(delivery) };
  }

  delivered({ place, atMs, observed }: Attempt, durationMs: number): void {
    this.progress.deliver(place, atMs, durationMs);
    observed?.end({ outcome: 'delivered', durationMs, kind: null });
  }

  /**
   * Records what a handler threw, and when the next attempt is due, if there is one.
   *
   * @param isDoubtful whether it may have delivered all the same: its commit was not answered.
   */
  failed(attempt: Attempt, durationMs: number, error: unknown, isDoubtful = false): void {
    this.#record(attempt, durationMs, failureOf(error), isDoubtful);
  }

  /** The relay before this one was to settle the delivery by then, and died. */
  lapsed(place: number, atMs: number): void {
    this.#record({ ...this.begin(place), atMs }, 0, LEASE_EXPIRED, false);
  }

  #record(
    { place, delivery, atMs, observed }: Attempt,
    durationMs: number,
    failure: Failure,
    isDoubtful: boolean,
  ) {
    const { kind, message } = failure;
    const hasWaited = failure.waitMs !== null;
    const waitMs = hasWaited ? failure.waitMs : this.#backoff(delivery, failure);
    // A relay that died stopped trying when its lease ran out.
    const endedAtMs = failure === LEASE_EXPIRED ? atMs : this.options.clock();
    const nextAttemptAtMs = waitMs === null ? null : endedAtMs + waitMs;
    const outcome = hasWaited ? 'waited' : 'failed';
    const errorGroup = nextAttemptAtMs === null ? this.#errorGroup(delivery, failure) : null;
    this.progress.fail(
      place,
      { position: delivery.position, atMs, durationMs, outcome, nextAttemptAtMs, kind, message, errorGroup },
      isDoubtful,
    );
    observed?.end({ outcome: nextAttemptAtMs === null ? 'dead_lettered' : outcome, durationMs, kind });
  }

  /** Groups are shown to every operator, so that nothing of the payload may stand in them. */
  #errorGroup({ event }: ClaimedDelivery, { kind, message }: Failure): ErrorGroup {
    const { topic, subscriber } = this.lane.subscription;
    const known = personalTexts(topic, event.payload, event.version);
    // A kind is a code or a class, but a handler may throw anything under any name.
    const told = (text: string) => maskPersonalData(text, known);
    return errorGroupOf(topic, subscriber.name, told(kind), told(message));
  }

  #backoff(delivery: ClaimedDelivery, { isPermanent }: Failure): number | null {
    return isPermanent
      ? null
      : waitAfter(delivery.attempts + 1, this.lane.subscription.subscriber.maxAttempts);
  }

  #observed(delivery: ClaimedDelivery): ObservedAttempt | null {
    const { lines } = this.options;
    const { attempts, event } = delivery;
    if (!lines && !isTraced(event)) return null;
    const { topic, subscriber } = this.lane.subscription;
    const named = {
      topic,
      subscriber: subscriber.name,
      eventId: event.id,
      deliveryId: deliveryIdOf(this.lane, delivery),
      attempt: attempts + 1,
      traceparent: event.traceparent,
    };
    return new ObservedAttempt(named, lines);
  }
}

/** A delivery keeps the id of the lane that it was fanned out to, also where its key has moved to another. */
export function deliveryIdOf({ home }: ClaimedLane, { position }: ClaimedDelivery): string {
  return `${home}-${position}`;
}

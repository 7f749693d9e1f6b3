import { errorGroupOf } from '../deliveries/error-group.ts';
import type { ErrorGroup } from '../deliveries/error-group.ts';
import { maskPersonalData, personalTexts } from '../catalog/personal.ts';
import type { LogBatch } from '../log.ts';
import { ObservedAttempt, isTraced } from '../telemetry/delivery.ts';
import { SECOND } from '../time.ts';
import { attempt } from './attempt.ts';
import type { AttemptOptions, Failure } from './attempt.ts';
import { waitAfter } from './backoff.ts';
import type { ClaimedDelivery, ClaimedLane } from '../deliveries/claim.ts';
import type { DeliveredAttempt, LaneOutcome, UnfinishedAttempt } from '../deliveries/settle.ts';
import { LEASE_MARGIN_MS } from '../deliveries/subscription.ts';

/** After this long a lane is let go, so that one long backlog leaves room for the others. */
const SLICE_MS = 5 * SECOND;

const LEASE_EXPIRED: Failure = {
  kind: 'lease_expired',
  message: 'the relay died, or lost its database, during the attempt',
  waitMs: null,
  isPermanent: false,
};

export interface DeliverOptions extends AttemptOptions {
  /**
   * The database's clock, in epoch milliseconds, or a little behind it: what is begun after a claim is recorded as begun
   * after all that was settled before it.
   */
  readonly clock: () => number;
  /** The same, or a little ahead of it: a lease seen from here ends early, never late. */
  readonly leaseClock: () => number;
  /** Whether to begin no further delivery: the relay's time is up. */
  readonly isOver: () => boolean;
  /** Takes a line for each attempt, where one is wanted. */
  readonly lines?: LogBatch | undefined;
}

/**
 * Hands a lane's deliveries to its handler, one after the other, until one must wait.
 *
 * Outcomes gather in the run; the relay takes and settles them, when the lane is done or while it goes on.
 */
export class LaneRun {
  readonly lane: ClaimedLane;
  /** Whether the slice was over before the batch was: the claim was too large for such slow handlers. */
  isCutShort = false;
  readonly #options: DeliverOptions;
  #isDone = false;
  #from: number;
  #to: number;
  #retryAtMs: number | null = null;
  #carefulTo: number | null = null;
  #neededVersion: number | null = null;
  #delivered: DeliveredAttempt[] = [];
  #unfinished: UnfinishedAttempt[] = [];
  #leaseEndsAtMs: number;
  #whenKept: (() => void) | null = null;
  #isLost = false;
  #committed = 0;
  #failure: unknown;
  #whenPaused: () => void = () => undefined;

  constructor(lane: ClaimedLane, claimedAtMs: number, options: DeliverOptions) {
    this.lane = lane;
    this.#options = options;
    this.#from = lane.head;
    this.#to = lane.head;
    this.#leaseEndsAtMs = claimedAtMs + lane.subscription.leaseMs;
    void this.#run()
      .catch((error: unknown) => (this.#failure = error))
      .finally(() => {
        this.#isDone = true;
        this.#whenPaused();
      });
  }

  /** What ended the run, should that be a mistake of the relay's own. Undefined otherwise. */
  get failure(): unknown {
    return this.#failure;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** Resolves when the run is done, or can't go on before its lease is made longer. Never rejects. */
  async pauses(): Promise<void> {
    if (this.#isDone || this.#whenKept) return;
    await new Promise<void>((resolve) => (this.#whenPaused = resolve));
  }

  /** How many deliveries transactional handlers have settled themselves since the last call. */
  takeCommitted(): number {
    const committed = this.#committed;
    this.#committed = 0;
    return committed;
  }

  /**
   * What is to be settled now, or null when nothing is. A lane that is done is let go.
   *
   * @param partial whether to take what a lane that goes on has done so far.
   */
  takeOutcome(partial: boolean): LaneOutcome | null {
    if (this.#isLost) return null;
    const hasNews = this.#delivered.length > 0 || this.#unfinished.length > 0;
    // Before the lease is too short to begin the next delivery, so that lanes seldom have to stop for it.
    const isEnding = this.#leaseMsLeft() < this.lane.subscription.leaseMs - LEASE_MARGIN_MS / 4;
    if (!this.#isDone && !this.#whenKept && !isEnding && !(partial && hasNews)) return null;
    const outcome: LaneOutcome = {
      id: this.lane.id,
      token: this.lane.token,
      from: this.#from,
      to: this.#to,
      retryAtMs: this.#isDone ? this.#retryAtMs : null,
      keepUntilMs: this.#isDone ? null : this.#options.leaseClock() + this.lane.subscription.leaseMs,
      carefulTo: this.#carefulTo,
      neededVersion: this.#neededVersion,
      delivered: this.#delivered,
      unfinished: this.#unfinished,
    };
    this.#from = this.#to;
    this.#carefulTo = null;
    this.#delivered = [];
    this.#unfinished = [];
    return outcome;
  }

  /** Tells the run until when it has the lane now; null when it was let go. */
  keep(untilMs: number | null): void {
    if (untilMs === null) return;
    this.#leaseEndsAtMs = untilMs;
    this.#resume();
  }

  /** Tells the run that another relay has the lane: it begins nothing more. */
  lose(): void {
    this.#isLost = true;
    this.#resume();
  }

  #resume(): void {
    this.#whenKept?.();
    this.#whenKept = null;
  }

  async #run(): Promise<void> {
    const { deliveries, unreadable, lapsedAtMs, lapsedVersion } = this.lane;
    const { isOver, signal } = this.#options;
    const startedAt = performance.now();
    // Also where this release can't read the head, if the relay that died could.
    const head = deliveries[0] ?? unreadable[0];
    const wasBegun = head && head.event.version <= (lapsedVersion ?? Infinity);
    if (wasBegun && lapsedAtMs !== null && !signal?.aborted && !this.#isEarly(head)) {
      this.#recordLapse(head, lapsedAtMs);
      return;
    }
    for (const delivery of deliveries) {
      if (this.#isLost || signal?.aborted) return;
      if (this.#isEarly(delivery)) {
        this.#retryAtMs = delivery.nextAttemptAtMs;
        return;
      }
      if (isOver()) return;
      if (performance.now() - startedAt > SLICE_MS) {
        this.isCutShort = true;
        return;
      }
      if (!(await this.#hasTime()) || !(await this.#attempt(delivery))) return;
      if (this.#retryAtMs !== null) return;
      // The next transaction to commit would move the head past a dead letter that is not recorded yet.
      if (this.lane.subscription.subscriber.transactional && this.#unfinished.length > 0) return;
    }
    this.#neededVersion = unreadable[0]?.event.version ?? null;
    // Past the end there may be settled deliveries only: what a replay once moved the head back over.
    if (this.lane.isWhole) this.#to = Math.max(this.#to, this.lane.newest);
  }

  /** Whether a delivery waits for its next attempt. */
  #isEarly({ nextAttemptAtMs }: ClaimedDelivery): boolean {
    return nextAttemptAtMs !== null && nextAttemptAtMs > this.#options.clock();
  }

  /**
   * The relay before this one died while it held the lane. The head is the one that it surely began; which of the others
   * it began is unknown, so they are claimed one by one until they are through.
   */
  #recordLapse(head: ClaimedDelivery, lapsedAtMs: number): void {
    const { deliveries, unreadable } = this.lane;
    this.#carefulTo = (unreadable.at(-1) ?? deliveries.at(-1)!).position;
    const outcome = this.#record(head, lapsedAtMs, 0, LEASE_EXPIRED);
    this.#observed(head)?.end({ outcome, durationMs: 0, kind: LEASE_EXPIRED.kind });
  }

  /** Waits until the lease is long enough for a whole attempt. @returns false when the lane is no longer ours. */
  async #hasTime(): Promise<boolean> {
    // Again after each settlement: one that took long has made the lease no longer than it asked for when it began.
    while (this.#isOurs() && this.#isShort()) {
      await new Promise<void>((resolve) => {
        this.#whenKept = resolve;
        this.#whenPaused();
      });
    }
    return this.#isOurs();
  }

  #isOurs(): boolean {
    return !this.#isLost && !this.#options.signal?.aborted;
  }

  #isShort(): boolean {
    return this.#leaseMsLeft() < this.lane.subscription.leaseMs - LEASE_MARGIN_MS / 2;
  }

  #leaseMsLeft(): number {
    return this.#leaseEndsAtMs - this.#options.leaseClock();
  }

  /** @returns whether the lane may go on: false when nothing is known of the outcome, or the lane is lost. */
  async #attempt(delivery: ClaimedDelivery): Promise<boolean> {
    const { position } = delivery;
    const atMs = this.#options.clock();
    const observed = this.#observed(delivery);
    const hand = () => attempt(this.lane, delivery, atMs, this.#from, this.#options);
    const result = await (observed ? observed.within(hand) : hand());
    switch (result.outcome) {
      case 'delivered':
        if (result.isSettled) {
          this.#from = position;
          this.#committed += 1;
        } else this.#delivered.push({ position, atMs, durationMs: result.durationMs });
        this.#to = position;
        observed?.end({ outcome: 'delivered', durationMs: result.durationMs, kind: null });
        return true;
      case 'failed': {
        const { durationMs, failure } = result;
        const outcome = this.#record(delivery, atMs, durationMs, failure);
        observed?.end({ outcome, durationMs, kind: failure.kind });
        return true;
      }
      case 'lease lost':
        this.#isLost = true;
        observed?.end({ outcome: 'lease_lost', durationMs: this.#options.clock() - atMs, kind: null });
        return false;
      case 'not tried':
        observed?.end(null);
        return false;
    }
  }

  /** Null where nobody wants to know: that costs nothing, and there are tens of thousands a second. */
  #observed({ position, attempts, event }: ClaimedDelivery): ObservedAttempt | null {
    const { lines } = this.#options;
    if (!lines && !isTraced(event)) return null;
    const { topic, subscriber } = this.lane.subscription;
    const named = {
      topic,
      subscriber: subscriber.name,
      eventId: event.id,
      deliveryId: `${this.lane.id}-${position}`,
      attempt: attempts + 1,
      traceparent: event.traceparent,
    };
    return new ObservedAttempt(named, lines);
  }

  /** Records an attempt that did not deliver, and when the next one is due, if there is one. */
  #record(
    delivery: ClaimedDelivery,
    atMs: number,
    durationMs: number,
    failure: Failure,
  ): 'waited' | 'failed' | 'dead_lettered' {
    const { position } = delivery;
    const { kind, message } = failure;
    const hasWaited = failure.waitMs !== null;
    const waitMs = hasWaited ? failure.waitMs : this.#backoff(delivery, failure);
    // A relay that died stopped trying when its lease ran out.
    const endedAtMs = kind === LEASE_EXPIRED.kind ? atMs : this.#options.clock();
    this.#retryAtMs = waitMs === null ? null : endedAtMs + waitMs;
    if (this.#retryAtMs === null) this.#to = position;
    const outcome = hasWaited ? 'waited' : 'failed';
    const nextAttemptAtMs = this.#retryAtMs;
    const errorGroup = nextAttemptAtMs === null ? this.#errorGroup(delivery, failure) : null;
    this.#unfinished.push({
      position,
      atMs,
      durationMs,
      outcome,
      nextAttemptAtMs,
      kind,
      message,
      errorGroup,
    });
    return nextAttemptAtMs === null ? 'dead_lettered' : outcome;
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
}

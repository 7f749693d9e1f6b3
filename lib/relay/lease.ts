import { LEASE_MARGIN_MS } from '../deliveries/subscription.ts';

/** The time for which a run has its lane, which the relay makes longer as long as the run goes on. */
export class Lease {
  readonly #leaseMs: number;
  readonly #clock: () => number;
  readonly #signal: AbortSignal | undefined;
  #endsAtMs: number;
  #isLost = false;
  #waiting: (() => void)[] = [];

  /** @param clock the database's, or a little ahead of it: a lease seen from here ends early, never late. */
  constructor(claimedAtMs: number, leaseMs: number, clock: () => number, signal: AbortSignal | undefined) {
    this.#leaseMs = leaseMs;
    this.#clock = clock;
    this.#signal = signal;
    this.#endsAtMs = claimedAtMs + leaseMs;
  }

  /** Whether another relay has the lane. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Whether anything waits for a longer lease. */
  get isAwaited(): boolean {
    return this.#waiting.length > 0;
  }

  /** Whether it is to be made longer: before nothing more can be begun, so that lanes seldom have to stop for it. */
  get isEnding(): boolean {
    return this.#leftMs() < this.#leaseMs - LEASE_MARGIN_MS / 4;
  }

  /** Whether it is over before a whole attempt and its settlement are. */
  get isShort(): boolean {
    return this.#leftMs() < this.#leaseMs - LEASE_MARGIN_MS / 2;
  }

  /** Until when the lane is to be kept from now on, in epoch milliseconds. */
  get untilMs(): number {
    return this.#clock() + this.#leaseMs;
  }

  /**
   * Waits until the lease is long enough for a whole attempt.
   *
   * @param whenWaiting called each time that it has to be made longer for that.
   * @returns false when the lane is no longer ours, or the relay is told to stop.
   */
  async hasTime(whenWaiting: () => void): Promise<boolean> {
    // Again after each settlement: one that took long has made the lease no longer than it asked for when it began.
    while (this.isShort && !this.isLost && !this.#signal?.aborted) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
        whenWaiting();
      });
    }
    return !this.isLost && !this.#signal?.aborted;
  }

  keep(untilMs: number): void {
    this.#endsAtMs = untilMs;
    this.#resume();
  }

  lose(): void {
    this.#isLost = true;
    this.#resume();
  }

  #leftMs(): number {
    return this.#endsAtMs - this.#clock();
  }

  #resume(): void {
    for (const resume of this.#waiting.splice(0)) resume();
  }
}

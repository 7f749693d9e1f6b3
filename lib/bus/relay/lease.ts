import { LEASE_MARGIN_MS } from '../deliveries/subscription.ts';

/** A run's lease on its lane, which the claim loop extends while the run goes on. */
export class Lease {
  readonly #leaseMs: number;
  readonly #clock: () => number;
  readonly #signal: AbortSignal | undefined;
  /** Called each time that it has to be extended before a whole attempt may begin. */
  whenAwaited: () => void = () => undefined;
  #endsAtMs: number;
  #isLost = false;
  #waiting: (() => void)[] = [];

  /** @param clock the database's clock, or a little ahead of it: a lease measured by it ends early, never late. */
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

  /** Whether a delivery waits for a longer lease. */
  get isAwaited(): boolean {
    return this.#waiting.length > 0;
  }

  /** Whether to extend it: early enough that lanes seldom have to stop for it. */
  get isEnding(): boolean {
    return this.leftMs < this.#leaseMs - LEASE_MARGIN_MS / 4;
  }

  /** Whether it may end before a whole attempt and its settlement do. */
  get isShort(): boolean {
    return this.leftMs < this.#leaseMs - LEASE_MARGIN_MS / 2;
  }

  /** For how long it is still certain that no other relay has the lane. */
  get leftMs(): number {
    return this.#endsAtMs - this.#clock();
  }

  /** When the lease ends if it is extended now, in epoch milliseconds. */
  get untilMs(): number {
    return this.#clock() + this.#leaseMs;
  }

  /**
   * Waits until the lease is long enough for a whole attempt.
   *
   * @returns false when another relay has the lane, or this one must stop.
   */
  async hasTime(): Promise<boolean> {
    // Checked again after each settlement: a slow one extends the lease only from the moment at which it was sent.
    while (this.isShort && !this.isLost && !this.#signal?.aborted) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
        this.whenAwaited();
      });
    }
    return !this.isLost && !this.#signal?.aborted;
  }

  extend(untilMs: number): void {
    this.#endsAtMs = untilMs;
    this.#resume();
  }

  lose(): void {
    this.#isLost = true;
    this.#resume();
  }

  #resume(): void {
    for (const resume of this.#waiting.splice(0)) resume();
  }
}

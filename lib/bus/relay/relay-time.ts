/** The settings of a relay that concern time. */
export interface TimeOptions {
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
  /** Ends it: from then on it begins nothing, and running handlers end within their limits. */
  readonly stop?: AbortSignal | undefined;
}

/** How long a relay may run, and which clock it uses. */
export class RelayTime {
  readonly signal: AbortSignal | undefined;
  readonly #stop: AbortSignal | undefined;
  readonly #now: TimeOptions['now'];
  readonly #endsAt: number;
  readonly #handlersEndAt: number;

  constructor({ until, handlersUntil = Infinity, now, signal, stop }: TimeOptions) {
    this.signal = signal;
    this.#stop = stop;
    this.#now = now;
    const remainingMs = until - Date.now();
    // A test that overrides the clock may count `until` from its own clock or from the real one.
    const longestMs = now === undefined ? remainingMs : Math.max(remainingMs, until - msOf(now));
    this.#endsAt = performance.now() + longestMs;
    this.#handlersEndAt = performance.now() + (handlersUntil - Date.now());
  }

  /** Whether the relay may begin nothing more. */
  isOver(): boolean {
    return this.signal?.aborted === true || this.#stop?.aborted === true || performance.now() >= this.#endsAt;
  }

  /** Whether a handler that begins now ends in time, even if it uses all of its limit. */
  fits(limitMs: number): boolean {
    return performance.now() + limitMs <= this.#handlersEndAt;
  }

  /** For how long handlers may still run; 0 for a relay that has to stop at once. */
  handlersLeftMs(): number {
    return this.signal?.aborted === true ? 0 : this.#handlersEndAt - performance.now();
  }

  /** The instant that replaces the database's clock, as ISO 8601; null outside of tests. */
  overriddenNow(): string | null {
    return this.#now === undefined ? null : new Date(msOf(this.#now)).toISOString();
  }

  /**
   * Makes a clock that continues from a reading of the database's clock. An overridden clock stands still, so that a
   * test can hit a retry to the millisecond.
   *
   * @param readAt when the reading was made, by `performance.now()`.
   */
  clockFrom(ms: number, readAt: number): () => number {
    return this.#now === undefined ? () => ms + performance.now() - readAt : () => ms;
  }
}

function msOf(now: NonNullable<TimeOptions['now']>): number {
  return Number(typeof now === 'function' ? now() : now);
}

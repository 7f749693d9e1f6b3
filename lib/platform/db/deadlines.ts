/** A deadline of `Deadlines`, to be withdrawn. */
export interface Deadline {
  /** By `performance.now()`. */
  readonly at: number;
  readonly act: () => void;
}

/**
 * Deadlines that are hardly ever reached, behind one timer. The timer is left as it is when a deadline is withdrawn, so
 * that thousands of statements a second set it once in as long as one of them may take.
 */
export class Deadlines {
  readonly #open = new Set<Deadline>();
  #timer: NodeJS.Timeout | undefined;
  #firesAt = Infinity;

  /** Calls `act` after so long, unless the deadline is withdrawn. */
  set(ms: number, act: () => void): Deadline {
    const deadline = { at: performance.now() + ms, act };
    this.#open.add(deadline);
    if (deadline.at < this.#firesAt) this.#fireAt(deadline.at);
    return deadline;
  }

  withdraw(deadline: Deadline): void {
    this.#open.delete(deadline);
  }

  #fireAt(at: number): void {
    clearTimeout(this.#timer);
    this.#firesAt = at;
    // Who waits has a connection, which keeps the process alive.
    this.#timer = setTimeout(() => this.#fire(), at - performance.now()).unref();
  }

  #fire(): void {
    // By the timer, not by the clock: timers fire up to a millisecond early.
    const due = [...this.#open].filter(({ at }) => at <= this.#firesAt);
    for (const deadline of due) this.#open.delete(deadline);
    this.#firesAt = Infinity;
    const next = Math.min(...Array.from(this.#open, ({ at }) => at));
    if (next < Infinity) this.#fireAt(next);
    for (const { act } of due) act();
  }
}

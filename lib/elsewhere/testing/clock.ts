import { msOf } from '../../platform/time.ts';

/** The clock of a test's bus. It stands still until the test moves it. */
export class TestClock {
  #ms: number;
  readonly #onMove: (now: Date) => void;

  /** @param onMove sets the database's clock; it throws when the bus is closed. */
  constructor(at: Date, onMove: (now: Date) => void) {
    this.#ms = at.getTime();
    this.#onMove = onMove;
  }

  now(): Date {
    return new Date(this.#ms);
  }

  /**
   * Moves the clock forward.
   *
   * @param by a time span such as `90s`, `1m`, `6h` or `7d`; a number counts milliseconds.
   * @throws TypeError for anything else; RangeError for a negative number.
   */
  advance(by: string | number): void {
    const ms = typeof by === 'number' ? by : msOf(by);
    if (!Number.isFinite(ms) || ms === 0) {
      throw new TypeError(
        `Expected a time span such as '90s', '1m', '6h' or '7d', or milliseconds, not ${JSON.stringify(by)}.`,
      );
    }
    this.#move(this.#ms + ms);
  }

  /** Moves the clock forward to an instant. @throws TypeError for an invalid one; RangeError for one in the past. */
  advanceTo(at: Date | string): void {
    this.#move(instant(at).getTime());
  }

  #move(ms: number): void {
    const to = new Date(ms);
    if (ms < this.#ms) {
      throw new RangeError(
        `The clock cannot go back: it is ${this.now().toISOString()}, and ${to.toISOString()} is before that.`,
      );
    }
    this.#onMove(to);
    this.#ms = ms;
  }
}

/** Reads an instant. @throws TypeError for an invalid one. */
export function instant(at: Date | string): Date {
  const read = new Date(at);
  if (Number.isNaN(read.getTime()))
    throw new TypeError(`Expected an instant such as '2026-02-21T09:35:00Z', not ${JSON.stringify(at)}.`);
  return read;
}

import { SECOND } from '../../platform/time.ts';

/** How soon a loop that holds lanes, or waits for producers, looks again; doubled each time that it finds nothing. */
const LOOK_AGAIN_MS = 2;
const LOOK_AGAIN_LIMIT_MS = 250;

/** How often the outcomes of unfinished lanes are settled. A crash repeats at most this much work. */
const PARTIAL_MS = 500;

/** How long a relay with nothing else to do waits for producers whose transactions are open. */
const FENCE_PATIENCE_MS = 1 * SECOND;

/** When a claim loop looks for work, and when it settles unfinished lanes. */
export class Pace {
  #lookAgainMs = LOOK_AGAIN_MS;
  #lastWorkAt = performance.now();
  #lastPartialAt = performance.now();

  /** Notes that a turn found work. */
  foundWork(): void {
    this.#lookAgainMs = LOOK_AGAIN_MS;
    this.#lastWorkAt = performance.now();
  }

  /** How long to wait before the next look: longer each time, until work is found. */
  nextLookMs(): number {
    const ms = this.#lookAgainMs;
    this.#lookAgainMs = Math.min(LOOK_AGAIN_LIMIT_MS, ms * 2);
    return ms;
  }

  /** Whether this turn settles the outcomes of unfinished lanes. After true, the time counts from now. */
  settlesPartially(): boolean {
    if (performance.now() - this.#lastPartialAt <= PARTIAL_MS) return false;
    this.#lastPartialAt = performance.now();
    return true;
  }

  /** Whether the last work is so recent that open transactions of producers are worth waiting for. */
  waitsForProducers(): boolean {
    return performance.now() - this.#lastWorkAt <= FENCE_PATIENCE_MS;
  }
}

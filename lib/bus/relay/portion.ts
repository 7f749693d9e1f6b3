import type { Database } from '../../platform/db/connect.ts';
import { codeOf, log } from '../../platform/log.ts';
import { onceFor } from '../../platform/once-for.ts';

/** How much larger each turn is than the one before it, after turns have become smaller. */
const GROWTH = 1 + 1 / 32;

/** A turn does no less than this share of the usual. */
const SMALLEST_SHARE = 1 / 8192;

/** SQLSTATE of a statement that was cancelled, as by `statement_timeout`. */
const CANCELLED = '57014';

/** The same, and our own limit. */
const TOO_LONG: ReadonlySet<unknown> = new Set([CANCELLED, 'no_answer']);

/**
 * How much of the usual a turn does: half as much after one that took longer than the database, its role or we allow, and
 * a little more after each that did not.
 *
 * One for each database: relays begin every few seconds, and what the turns of one may take holds for the next.
 */
export class Portion {
  #share = 1;
  #smallestShare = 1;

  /** A turn's part of what is usual, at least 1. */
  of(usual: number): number {
    return Math.max(1, Math.floor(usual * this.#share));
  }

  /**
   * Makes the next turns smaller if the error says that this one took too long.
   *
   * @returns whether a smaller one may succeed at once: the database answers.
   */
  shrinkAfter(error: unknown): boolean {
    const code = codeOf(error);
    if (!TOO_LONG.has(code) || this.#share <= SMALLEST_SHARE) return false;
    this.#share /= 2;
    if (this.#share < this.#smallestShare) {
      this.#smallestShare = this.#share;
      log('warn', 'a turn of the relay took too long; the next ones do less', { share: this.#share });
    }
    return code === CANCELLED;
  }

  /** Makes the next turns a little larger. */
  grow(): void {
    this.#share = Math.min(1, this.#share * GROWTH);
  }
}

export const portionOf = onceFor<Database, Portion>(() => new Portion());

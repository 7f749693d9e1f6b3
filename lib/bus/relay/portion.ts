import type { Database } from '../../platform/db/connect.ts';
import { codeOf, log } from '../../platform/log.ts';
import { onceFor } from '../../platform/once-for.ts';
import type { LaneOutcome } from '../deliveries/settle.ts';

/** Outcomes of deliveries that a turn settles, once turns have taken too long. Until then it settles all there are. */
const MAX_SETTLED = 6000;

/** How much larger each turn is than the one before it, after turns have become smaller. */
const GROWTH = 1 + 1 / 32;

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

  /** How many outcomes a turn may settle. */
  get maxSettled(): number {
    return this.#share === 1 ? Infinity : this.of(MAX_SETTLED);
  }

  /**
   * Makes the next turns smaller if the error says that this one took too long.
   *
   * @returns whether a smaller one may succeed at once: the database answers.
   */
  shrinkAfter(error: unknown): boolean {
    const code = codeOf(error);
    if (!TOO_LONG.has(code) || this.#share * MAX_SETTLED <= 1) return false;
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

/** Counts what settling an outcome takes. */
export function sizeOf({ delivered, unfinished }: LaneOutcome): number {
  return Math.max(1, delivered.length + unfinished.length);
}

/**
 * Splits an outcome that is too large for a turn. The lane is kept, and its head stays, until the rest is settled; what is
 * delivered comes first, so that no key leaves the lane while earlier deliveries of it are open.
 *
 * @param keepUntilMs when the lease of the first part ends.
 */
export function split(
  outcome: LaneOutcome,
  most: number,
  keepUntilMs: number,
): { readonly part: LaneOutcome; readonly rest: LaneOutcome } {
  const delivered = outcome.delivered.slice(0, most);
  const unfinished = outcome.unfinished.slice(0, most - delivered.length);
  const kept = { to: outcome.from, retryAtMs: null, keepUntilMs, carefulTo: null, neededVersion: null };
  return {
    part: { ...outcome, ...kept, delivered, unfinished, leaving: [] },
    rest: {
      ...outcome,
      delivered: outcome.delivered.slice(delivered.length),
      unfinished: outcome.unfinished.slice(unfinished.length),
    },
  };
}

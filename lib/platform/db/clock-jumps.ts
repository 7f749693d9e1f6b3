import { onceFor } from '../once-for.ts';
import { SECOND } from '../time.ts';
import type { Database } from './connect.ts';

/** A smaller jump than this ends no lease that has time for an attempt. */
const JUMP_MS = 5 * SECOND;

/** A reading of the database's clock, which was made between the two instants of `performance.now()`. */
interface Reading {
  readonly clockMs: number;
  readonly sentAt: number;
  readonly receivedAt: number;
}

/**
 * Compares the database's clock with this process's, which never jumps: a lease that only a jump ended is held by a relay
 * that lives.
 *
 * One for each database: relays begin every few seconds, and a jump may fall between two of them.
 */
export class ClockJumps {
  #last: Reading | null = null;
  #skipped: { readonly fromMs: number; readonly toMs: number } | null = null;

  /** Notes a reading. */
  note(reading: Reading): void {
    const last = this.#last ?? reading;
    this.#last = reading;
    // No more time than this has passed between the two.
    const expectedMs = last.clockMs + reading.receivedAt - last.sentAt;
    if (reading.clockMs > expectedMs + JUMP_MS) this.#skipped = { fromMs: expectedMs, toMs: reading.clockMs };
    // It is back, and comes to these instants again.
    else if (reading.clockMs < last.clockMs - JUMP_MS) this.#skipped = null;
  }

  /** Whether the clock jumped over an instant, which has not been. In epoch milliseconds. */
  hasSkipped(atMs: number): boolean {
    return this.#skipped !== null && this.#skipped.fromMs < atMs && atMs <= this.#skipped.toMs;
  }
}

export const clockJumpsOf = onceFor<Database, ClockJumps>(() => new ClockJumps());

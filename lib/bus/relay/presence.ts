import { MINUTE } from '../../platform/time.ts';
import { ABSENT_KINDS } from '../deliveries/outage.ts';
import type { Presence } from '../deliveries/settle.ts';
import { EVENT_MISSING, LEASE_EXPIRED } from './failure.ts';
import type { AttemptFailure } from './failure.ts';

/** After this many absences of one kind, no further handler of the subscriber starts before the database knows of them. */
const ENOUGH = 3;

/** Wait of a delivery that probed without an answer. Which delivery probes next, and when, is the outage's. */
export const PROBE_WAIT_MS = 1 * MINUTE;

/** Says whether somebody was there. @returns null where the error does not tell: the relay died, or was asked to wait. */
export function presenceOf(failure: AttemptFailure): Presence | null {
  if (failure === LEASE_EXPIRED || failure === EVENT_MISSING || failure.waitMs !== null) return null;
  return ABSENT_KINDS.includes(failure.kind) ? 'absent' : 'present';
}

/**
 * Counts, for a relay, the attempts that found nobody there, until they are settled. Without it a relay that has claimed
 * the deliveries of a thousand keys would try each of them before the database can open an outage.
 */
export class Absences {
  readonly #counts = new Map<string, Map<string, number>>();

  note(subscriber: string, kind: string): void {
    const counts = this.#counts.get(subscriber) ?? new Map<string, number>();
    this.#counts.set(subscriber, counts.set(kind, (counts.get(kind) ?? 0) + 1));
  }

  /** Somebody was there, or the absences are settled: the database counts from here. */
  forget(subscriber: string): void {
    this.#counts.delete(subscriber);
  }

  areEnough(subscriber: string): boolean {
    const counts = this.#counts.get(subscriber);
    return counts !== undefined && [...counts.values()].some((count) => count >= ENOUGH);
  }
}

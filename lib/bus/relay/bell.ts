import type { Database } from '../../platform/db/connect.ts';
import { onceFor } from '../../platform/once-for.ts';
import { MINUTE } from '../../platform/time.ts';

/** How often turns look at all due lanes, while emits bring work. */
const LOOK_EVERY_MS = 100;

/** How often a relay asks for outages to end that another process has to end. Its turns find them for up to a day. */
const END_EVERY_MS = 1 * MINUTE;

/** Wakes the claim loops of relays in this process when an event was committed. */
export class Bell {
  /** How many times it has rung. */
  rings = 0;
  /** Up to this ring nothing is left to do: a turn that was sent after it found nothing more. */
  answered = 0;
  /** Looks that no turn has been sent for yet. */
  readonly early = new Set<EarlyLook>();
  readonly dueLooks = new DueLooks();
  readonly outageEnds = new OutageEnds();
  readonly #listeners = new Set<() => void>();

  ring(): void {
    this.rings += 1;
    for (const listener of this.#listeners) listener();
  }

  /** Calls a listener each time it rings. @returns a function that ends this. */
  onRing(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** Gives the bell of a database. */
export const bellOf = onceFor<Database, Bell>(() => new Bell());

/** A look for the events of a backend whose commit has been sent and not been answered. */
export class EarlyLook {
  readonly backend: number;
  /** Resolves when its turn has ended: to whether that turn found the commit made, so that it needs no other look. */
  readonly isMet: Promise<boolean>;
  #end: (isMet: boolean) => void = () => undefined;

  constructor(backend: number) {
    this.backend = backend;
    this.isMet = new Promise((resolve) => (this.#end = resolve));
  }

  end(isMet: boolean): void {
    this.#end(isMet);
  }
}

/** When turns look at all due lanes, and not only at those that they lengthen themselves. */
export class DueLooks {
  #lookedAt = -Infinity;

  /** Has the next turn look at all due lanes. */
  owe(): void {
    this.#lookedAt = -Infinity;
  }

  /** Whether something may be due that no turn has looked for. */
  get isOwed(): boolean {
    return this.#lookedAt === -Infinity;
  }

  /** Whether a turn has to look at all due lanes. After true, the time counts from now. */
  take(): boolean {
    if (performance.now() - this.#lookedAt < LOOK_EVERY_MS) return false;
    this.#lookedAt = performance.now();
    return true;
  }
}

/** When turns that find an outage over ask for its end. */
export class OutageEnds {
  #leftAtMs: number | null = null;
  #notBefore = -Infinity;

  /** Whether to ask. @param recoveredAtMs as the turn found it. */
  areDue(recoveredAtMs: number | null): recoveredAtMs is number {
    if (recoveredAtMs === null) return false;
    return recoveredAtMs !== this.#leftAtMs || performance.now() >= this.#notBefore;
  }

  /** Notes that only subscribers that are not attached have outages that are over, the last of them since then. */
  leave(recoveredAtMs: number): void {
    this.#leftAtMs = recoveredAtMs;
    this.#notBefore = performance.now() + END_EVERY_MS;
  }
}

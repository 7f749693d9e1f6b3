import type { Database } from '../../platform/db/connect.ts';
import { onceFor } from '../../platform/once-for.ts';
import { SECOND } from '../../platform/time.ts';

/** How often turns look at all topics and lanes, while emits bring work. */
const LOOK_EVERY_MS = 1 * SECOND;

/** What a turn is to ask for. */
export interface Call {
  /** The topics to which events were emitted. */
  readonly topics: readonly string[];
  /** Whether to look at all topics, and for all due lanes. */
  readonly isLooking: boolean;
  /** Lanes that other relays hold, in which events of a kick wait; null for a relay that looks again anyway. */
  readonly behind: readonly number[] | null;
}

/** What the next turns of a relay are to ask for. */
export class Calls {
  readonly #topics = new Set<string>();
  readonly #behind = new Set<number>();
  #lookedAt: number;

  readonly #looks: boolean;
  #hasFoundWork = false;

  /** @param looks true for a relay without a kick: it asks for everything when it begins, and once more before it ends. */
  constructor(looks: boolean) {
    this.#looks = looks;
    this.#lookedAt = looks ? -Infinity : performance.now();
  }

  /** Has the next turn ask for these topics too. @param topics without them, it looks at all. */
  owe(topics?: Iterable<string>): void {
    if (topics) for (const topic of topics) this.#topics.add(topic);
    else this.#lookedAt = -Infinity;
  }

  /** Whether something may be due that no turn has been sent for. */
  get isOwed(): boolean {
    return this.#topics.size > 0 || this.#lookedAt === -Infinity;
  }

  /** Whether lanes of other relays are to be asked for until these let them go: such a relay may claim nothing more. */
  get areBehind(): boolean {
    return this.#behind.size > 0;
  }

  /** Has the next turn ask for these lanes too. */
  awaitLanes(lanes: readonly number[]): void {
    for (const lane of lanes) this.#behind.add(lane);
  }

  /** Notes what a turn found: others may have emitted, without a kick, while its events were delivered. */
  noteTurn(isLooking: boolean, hasFoundWork: boolean): void {
    if (hasFoundWork) this.#hasFoundWork = true;
    else if (isLooking) this.#hasFoundWork = false;
    else if (this.#looks && this.#hasFoundWork) this.owe();
  }

  /** Takes what the next turn is to ask for. */
  take(): Call {
    const topics = [...this.#topics];
    this.#topics.clear();
    const isLooking = performance.now() - this.#lookedAt >= LOOK_EVERY_MS;
    if (isLooking) this.#lookedAt = performance.now();
    const behind = this.#looks ? null : [...this.#behind];
    this.#behind.clear();
    return { topics, isLooking, behind };
  }
}

type RingListener = (topics?: Iterable<string>) => void;

/** Wakes the claim loops of relays in this process when an event was committed, and says of which topics. */
export class Bell {
  /** How many times it has rung. */
  rings = 0;
  /** Up to this ring nothing is left to do: a turn that was sent after it found nothing more. */
  answered = 0;
  /** Looks that no turn has been sent for yet. */
  readonly early = new Set<EarlyLook>();
  /** What the relays that answer it, one at a time, are to ask for. Those that only hear it have calls of their own. */
  readonly calls: Calls | null;
  readonly #listeners = new Set<RingListener>();

  constructor(calls: Calls | null = null) {
    this.calls = calls;
  }

  /** @param topics those of the events that were committed; without them, all. */
  ring(topics?: Iterable<string>): void {
    this.rings += 1;
    this.calls?.owe(topics);
    for (const listener of this.#listeners) listener(topics);
  }

  /** Calls a listener each time it rings. @returns a function that ends this. */
  onRing(listener: RingListener): () => void {
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

import { attempt } from './attempt.ts';
import type { LaneWork } from './lane-work.ts';

/**
 * Keys of a shared lane that are handed over at once. A subscription has 8 such lanes, so that one relay has at most
 * 256 of its handlers under way: as many lanes as a relay takes at once.
 */
const KEYS_AT_ONCE = 32;

/**
 * Hands a lane's deliveries over one by one: each key in order, several keys of a shared lane side by side.
 *
 * @returns whether it went through all of them.
 */
export async function oneByOne(work: LaneWork): Promise<boolean> {
  const turns = new Turns(work);
  const strands = Array.from({ length: work.lane.isShared ? KEYS_AT_ONCE : 1 }, () => strand(work, turns));
  return (await Promise.all(strands)).every(Boolean);
}

/** Hands over one delivery after the other. It waits only for handlers that are not done at once. */
async function strand(work: LaneWork, turns: Turns): Promise<boolean> {
  const { lease, progress } = work;
  for (let place = turns.take(); place !== null; place = turns.takeAfter(place)) {
    const delivery = progress.claimed[place]!;
    if (!work.isReadable(delivery)) {
      progress.leave(place, { keepUntilMs: null, neededVersion: delivery.event.version });
      continue;
    }
    if (work.isEarly(delivery)) {
      progress.wait(place, delivery.nextAttemptAtMs!);
      continue;
    }
    if (lease.isShort && !(await work.leaseHasTime())) return false;
    if (!work.hasTime()) return false;
    const ended = attempt(work, place);
    if (ended) await ended;
    if (work.isAborted) return false;
  }
  return true;
}

/**
 * Whose turn it is: the first delivery whose key nobody is at. The first of all that are open is always among those that
 * are begun, which is what a relay goes by that finds the lane of one that died.
 */
class Turns {
  readonly #work: LaneWork;
  /** By the keys that somebody is at: what came by meanwhile. */
  readonly #behind = new Map<string, number[]>();
  #place = 0;

  constructor(work: LaneWork) {
    this.#work = work;
  }

  take(): number | null {
    const { progress, lane } = this.#work;
    for (;;) {
      const place = progress.next(this.#place);
      if (place === null) return null;
      this.#place = place + 1;
      if (!lane.isShared) return place;
      const key = progress.keyOf(place);
      const behind = this.#behind.get(key);
      if (!behind) {
        this.#behind.set(key, []);
        return place;
      }
      behind.push(place);
    }
  }

  /** @param place what was handed over: first comes what is behind it. */
  takeAfter(place: number): number | null {
    const { progress, lane } = this.#work;
    if (!lane.isShared) return this.take();
    const key = progress.keyOf(place);
    const next = progress.isBlocked(key) ? undefined : this.#behind.get(key)?.shift();
    if (next !== undefined) return next;
    this.#behind.delete(key);
    return this.take();
  }
}

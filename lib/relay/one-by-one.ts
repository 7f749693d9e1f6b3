import { beginAttempt, contextOf } from './attempt.ts';
import type { Attempt } from './attempt.ts';
import type { HeldLane } from './held-lane.ts';
import { HandlerLimit, isPromise, withinLimit } from './limit.ts';

/**
 * Keys of a shared lane that are delivered at once. A subscription has 8 such lanes, so one relay runs at most 256 of
 * its handlers at a time: as many as it holds lanes.
 */
const KEYS_AT_ONCE = 32;

/**
 * Delivers a lane one event at a time: each key in order, several keys of a shared lane side by side.
 *
 * @returns whether it went through all claimed deliveries.
 */
export async function oneByOne(held: HeldLane): Promise<boolean> {
  const turns = new Turns(held);
  const strands = Array.from({ length: held.lane.isShared ? KEYS_AT_ONCE : 1 }, () => strand(held, turns));
  return (await Promise.all(strands)).every(Boolean);
}

/** Delivers one event after the other. It only waits for handlers that return a promise. */
async function strand(held: HeldLane, turns: Turns): Promise<boolean> {
  const { lease, progress } = held;
  for (let place = turns.take(); place !== null; place = turns.takeAfter(place)) {
    const delivery = progress.claimed[place]!;
    if (!held.isReadable(delivery)) {
      progress.leave(place, { keepUntilMs: null, neededVersion: delivery.event.version });
      continue;
    }
    if (held.isEarly(delivery)) {
      progress.wait(place, delivery.nextAttemptAtMs!);
      continue;
    }
    if (lease.isShort && !(await held.leaseHasTime())) return false;
    if (!held.hasTime()) return false;
    const ended = deliver(held, place);
    if (ended) await ended;
    if (held.isAborted) return false;
  }
  return true;
}

/**
 * Calls the handler, within its time limit, and records the outcome.
 *
 * @returns a promise that never rejects; undefined where the handler returned none.
 */
function deliver(held: HeldLane, place: number): Promise<void> | undefined {
  const attempt = beginAttempt(held, place);
  const { handler, subscriber } = held.lane.subscription;
  const limit = new HandlerLimit();
  const fail = (error: unknown) => (held.isAborted ? attempt.drop() : attempt.fail(error));
  try {
    const handled = attempt.within(() =>
      handler(attempt.delivery.event, contextOf(held.lane, attempt, limit)),
    );
    if (isPromise(handled)) {
      const limited = withinLimit(handled, limit, subscriber.timeoutMs, held.options.signal);
      return untilRecorded(
        held,
        attempt,
        limited.then(() => attempt.deliver(), fail),
      );
    }
  } catch (error) {
    fail(error);
    return undefined;
  }
  attempt.deliver();
  return undefined;
}

/** Notes an attempt as under way until its outcome is recorded. */
async function untilRecorded(held: HeldLane, attempt: Attempt, ended: Promise<void>): Promise<void> {
  const long = { attempt, beganAt: performance.now(), ended };
  held.underWay.add(long);
  await ended;
  held.underWay.delete(long);
}

/**
 * Gives each strand its next place: the first whose key no other strand is delivering. So the first open delivery is
 * always among those that have begun; a relay that finds the lane of a dead one relies on that.
 */
class Turns {
  readonly #held: HeldLane;
  /** For each key that a strand is delivering, its next places. */
  readonly #behind = new Map<string, number[]>();
  #place = 0;

  constructor(held: HeldLane) {
    this.#held = held;
  }

  take(): number | null {
    const { progress, lane } = this.#held;
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

  /** Takes the next place of the same key; if there is none, that of another key, as `take` does. */
  takeAfter(place: number): number | null {
    const { progress, lane } = this.#held;
    if (!lane.isShared) return this.take();
    const key = progress.keyOf(place);
    const next = progress.isBlocked(key) ? undefined : this.#behind.get(key)?.shift();
    if (next !== undefined) return next;
    this.#behind.delete(key);
    return this.take();
  }
}

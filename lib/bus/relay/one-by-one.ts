import { isConflict, MOST_RUNS } from '../../platform/conflict.ts';
import { HandlerLimit, isPromise, withinLimit } from '../../platform/time-limit.ts';
import { Attempt } from './attempt.ts';
import type { RunState } from './run-state.ts';

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
export async function oneByOne(state: RunState): Promise<boolean> {
  const turns = new Turns(state);
  const strands = Array.from({ length: state.lane.isShared ? KEYS_AT_ONCE : 1 }, () => strand(state, turns));
  return (await Promise.all(strands)).every(Boolean);
}

/** Delivers one event after the other. It only waits for handlers that return a promise. */
async function strand(state: RunState, turns: Turns): Promise<boolean> {
  const { lease, progress } = state;
  for (let place = turns.take(); place !== null; place = turns.takeAfter(place)) {
    const delivery = progress.claimed[place]!;
    if (!state.isReadable(delivery)) {
      progress.leave(place, { keepUntilMs: null, neededVersion: delivery.event.version });
      continue;
    }
    if (state.isEarly(delivery)) {
      progress.wait(place, delivery.nextAttemptAtMs!);
      continue;
    }
    if (lease.isShort && !(await lease.hasTime())) return false;
    for (let runs = 1; ; runs += 1) {
      if (!state.hasTime()) return false;
      const ended = deliver(state, place, runs < MOST_RUNS);
      const isToRunAgain = typeof ended === 'boolean' ? ended : await ended;
      if (!isToRunAgain) break;
    }
    if (state.isAborted) return false;
  }
  return true;
}

/**
 * Calls the handler, within its time limit, and records the outcome. A transaction of its own that met a conflict is no
 * attempt: the handler is called again at once.
 *
 * @param mayRunAgain whether a conflict is left to another call.
 * @returns whether to call it again; a promise of it, which never rejects, where the handler returned one.
 */
function deliver(state: RunState, place: number, mayRunAgain: boolean): Promise<boolean> | boolean {
  const attempt = new Attempt(state, place);
  const { handler, subscriber } = state.lane.subscription;
  const limit = new HandlerLimit();
  const record = () => {
    state.underWay.delete(attempt);
    attempt.deliver();
    return false;
  };
  const fail = (error: unknown) => {
    state.underWay.delete(attempt);
    const isToRunAgain = mayRunAgain && isConflict(error);
    if (isToRunAgain || state.isAborted) attempt.drop();
    else attempt.fail(error);
    return isToRunAgain;
  };
  try {
    const context = attempt.contextWith(limit);
    if (state.previous) Object.assign(context, { previous: state.previousOf(place) });
    const handled = attempt.within(() => handler(attempt.delivery.event, context));
    if (isPromise(handled)) {
      const limited = withinLimit(handled, limit, subscriber.timeoutMs, state.options.time.signal);
      const ended = limited.then(record, fail);
      state.underWay.set(attempt, { beganAt: performance.now(), ended });
      return ended;
    }
  } catch (error) {
    return fail(error);
  }
  return record();
}

/**
 * Gives each strand its next place: the first whose key no other strand is delivering. So the first open delivery is
 * always among those that have begun; a relay that finds the lane of a dead one relies on that.
 */
class Turns {
  readonly #state: RunState;
  /** For each key that a strand is delivering, its next places. */
  readonly #behind = new Map<string, number[]>();
  #place = 0;

  constructor(state: RunState) {
    this.#state = state;
  }

  take(): number | null {
    const { progress } = this.#state;
    for (;;) {
      const place = progress.next(this.#place);
      if (place === null) return null;
      this.#place = place + 1;
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
    const { progress } = this.#state;
    const key = progress.keyOf(place);
    const next = progress.isBlocked(key) ? undefined : this.#behind.get(key)?.shift();
    if (next !== undefined) return next;
    this.#behind.delete(key);
    return this.take();
  }
}

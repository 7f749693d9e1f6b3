import { isConflict, MOST_RUNS } from '../../platform/conflict.ts';
import { HandlerLimit, isPromise, withinLimit } from '../../platform/time-limit.ts';
import { Attempt } from './attempt.ts';
import { mayBegin } from './in-order.ts';
import type { InHand } from './progress.ts';
import type { RunState } from './run-state.ts';

/**
 * Keys of a lane that are delivered at once. A subscription has 8 such lanes, so one relay runs at most 256 of its handlers at
 * a time: as many as it holds lanes.
 */
const KEYS_AT_ONCE = 32;

/** Delivers a lane one event at a time: each key in order, several keys of a lane side by side. */
export async function oneByOne(state: RunState): Promise<void> {
  const { isKeyed, handlers } = state.lane;
  const strands = isKeyed ? Math.min(KEYS_AT_ONCE, handlers) : 1;
  const turns = new Turns(state);
  await Promise.all(Array.from({ length: strands }, () => strand(state, turns)));
}

/** Delivers one event after the other. It only waits for handlers that return a promise. */
async function strand(state: RunState, turns: Turns): Promise<void> {
  const { lease, progress } = state;
  for (let one = turns.take(); one !== null; one = turns.takeAfter(one)) {
    if (!mayBegin(state, one)) {
      progress.block(one);
      continue;
    }
    if (lease.isShort && !(await lease.hasTime())) return;
    for (let runs = 1; ; runs += 1) {
      if (!state.hasTime()) return;
      const ended = deliver(state, one, runs < MOST_RUNS);
      const isToRunAgain = typeof ended === 'boolean' ? ended : await ended;
      if (!isToRunAgain) break;
    }
    if (state.isAborted) return;
  }
}

/**
 * Calls the handler, within its time limit, and records the outcome. A transaction of its own that met a conflict is no
 * attempt: the handler is called again at once.
 *
 * @param mayRunAgain whether a conflict is left to another call.
 * @returns whether to call it again; a promise of it, which never rejects, where the handler returned one.
 */
function deliver(state: RunState, one: InHand, mayRunAgain: boolean): Promise<boolean> | boolean {
  const attempt = new Attempt(state, one);
  const { handler, subscriber } = state.lane.subscription;
  const limit = new HandlerLimit();
  const record = () => {
    attempt.deliver();
    return false;
  };
  const fail = (error: unknown) => {
    const isToRunAgain = mayRunAgain && isConflict(error);
    if (isToRunAgain) attempt.forget();
    else if (state.isAborted) attempt.drop();
    else attempt.fail(error);
    return isToRunAgain;
  };
  try {
    const context = attempt.contextWith(limit);
    if (state.previous) Object.assign(context, { previous: state.previousOf(one) });
    const handled = attempt.within(() => handler(attempt.event, context));
    if (isPromise(handled)) {
      state.progress.begin(one);
      return withinLimit(handled, limit, subscriber.timeoutMs, state.options.time.signal).then(record, fail);
    }
  } catch (error) {
    return fail(error);
  }
  return record();
}

/**
 * Gives each strand its next delivery: the first whose key no other strand is delivering. So the first open delivery is
 * always among those that have begun; a relay that finds the lane of a dead one relies on that.
 */
class Turns {
  readonly #state: RunState;
  /** For each key that a strand is delivering, its next deliveries. */
  readonly #behind = new Map<string, InHand[]>();
  #index = 0;
  readonly #claim: number;

  constructor(state: RunState) {
    this.#state = state;
    this.#claim = state.progress.claims;
  }

  take(): InHand | null {
    const { progress } = this.#state;
    // The lane has gone on with another claim while the handler ran.
    if (progress.claims !== this.#claim) return null;
    for (;;) {
      const index = progress.next(this.#index);
      if (index === null) return null;
      this.#index = index + 1;
      const one = progress.inHand[index]!;
      const key = progress.keyOf(one);
      const behind = this.#behind.get(key);
      if (!behind) {
        this.#behind.set(key, []);
        return one;
      }
      behind.push(one);
    }
  }

  /** Takes the next delivery of the same key; if there is none, that of another key, as `take` does. */
  takeAfter(one: InHand): InHand | null {
    const { progress } = this.#state;
    const key = progress.keyOf(one);
    const next = progress.isBlocked(key) ? undefined : this.#behind.get(key)?.shift();
    if (next !== undefined) return next;
    this.#behind.delete(key);
    return this.take();
  }
}

import type { Rule } from '../chaos/promises/promises.ts';
import { stepsFrom, take } from './next.ts';
import { brokenIn, isAtRest } from './promises.ts';
import { keyOf } from './state.ts';
import type { State } from './state.ts';
import { FAULTS } from './steps.ts';
import type { Step } from './steps.ts';
import { initialState } from './world.ts';
import type { World } from './world.ts';

/** What a search has found. */
export interface Search {
  readonly states: number;
  readonly transitions: number;
  /** Steps of the longest of the shortest ways to a state. */
  readonly depth: number;
  readonly seconds: number;
  /** Whether it went through all states. */
  readonly isWhole: boolean;
  /** The shortest schedule that breaks a promise; null: none does. */
  readonly fall: { readonly rule: Rule; readonly schedule: readonly Step[] } | null;
}

/** Searches all interleavings of a world, the shortest first. @param most when to give up. */
export function search(world: World, most = Infinity): Search {
  const beganAt = performance.now();
  const first = initialState(world);
  const known = new Map([[keyOf(first), 0]]);
  const parents = [-1];
  const ordinals = [-1];
  const edges = new Edges();
  const rests: number[] = [];
  let layer: State[] = [first];
  let begin = 0;
  let depth = 0;
  let transitions = 0;
  const answer = (isWhole: boolean, fall: Search['fall']): Search => ({
    states: known.size,
    transitions,
    depth,
    seconds: (performance.now() - beganAt) / 1000,
    isWhole,
    fall,
  });
  while (layer.length > 0) {
    const next: State[] = [];
    for (const [offset, state] of layer.entries()) {
      const index = begin + offset;
      if (isAtRest(state, world)) rests.push(index);
      for (const [ordinal, step] of stepsFrom(state, world).entries()) {
        transitions += 1;
        const after = take(state, step, world);
        const key = keyOf(after);
        let found = known.get(key);
        if (found === undefined) {
          found = known.size;
          known.set(key, found);
          parents.push(index);
          ordinals.push(ordinal);
          next.push(after);
          const rule = brokenIn(after, world);
          if (rule) return answer(false, { rule, schedule: scheduleTo(found, parents, ordinals, world) });
        }
        if (!FAULTS.has(step.name)) edges.add(index, found);
      }
      if (known.size > most) return answer(false, null);
    }
    begin += layer.length;
    layer = next;
    depth += 1;
  }
  const lost = edges.firstWithoutWayTo(rests, known.size);
  const fall =
    lost === -1 ? null : { rule: 'outcome' as const, schedule: scheduleTo(lost, parents, ordinals, world) };
  return answer(true, fall);
}

/** Follows the way to a state from the beginning. */
function scheduleTo(
  index: number,
  parents: readonly number[],
  ordinals: readonly number[],
  world: World,
): Step[] {
  const way: number[] = [];
  for (let at = index; at > 0; at = parents[at]!) way.unshift(ordinals[at]!);
  let state = initialState(world);
  return way.map((ordinal) => {
    const step = stepsFrom(state, world)[ordinal]!;
    state = take(state, step, world);
    return step;
  });
}

/** The steps between states that come sooner or later. */
class Edges {
  #from = new Int32Array(1 << 16);
  #to = new Int32Array(1 << 16);
  #count = 0;

  add(from: number, to: number): void {
    if (from === to) return;
    if (this.#count === this.#from.length) {
      this.#from = grown(this.#from);
      this.#to = grown(this.#to);
    }
    this.#from[this.#count] = from;
    this.#to[this.#count] = to;
    this.#count += 1;
  }

  /** Gives the first state from which none of these can be reached without a fault; -1: there is none. */
  firstWithoutWayTo(rests: readonly number[], states: number): number {
    const starts = new Int32Array(states + 1);
    for (let edge = 0; edge < this.#count; edge += 1) starts[this.#to[edge]! + 1]! += 1;
    for (let state = 0; state < states; state += 1) starts[state + 1]! += starts[state]!;
    const ends = starts.slice();
    const into = new Int32Array(this.#count);
    for (let edge = 0; edge < this.#count; edge += 1) into[ends[this.#to[edge]!]!++] = this.#from[edge]!;
    const isGood = new Uint8Array(states);
    const todo = [...rests];
    for (const rest of rests) isGood[rest] = 1;
    for (let state = todo.pop(); state !== undefined; state = todo.pop()) {
      for (let edge = starts[state]!; edge < starts[state + 1]!; edge += 1) {
        const before = into[edge]!;
        if (isGood[before] === 1) continue;
        isGood[before] = 1;
        todo.push(before);
      }
    }
    return isGood.indexOf(0);
  }
}

function grown(array: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(array.length * 2);
  larger.set(array);
  return larger;
}

import type { Rule } from '../chaos/promises/promises.ts';
import { stepsFrom, take } from './next.ts';
import { brokenIn, isAtRest } from './promises.ts';
import { encode, keyOf } from './state.ts';
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
  const known = new Known();
  known.numberOf(keyOf(first));
  const parents = new Numbers([-1]);
  const ordinals = new Numbers([-1]);
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
    const parts = new Parts();
    for (const [offset, state] of layer.entries()) {
      const index = begin + offset;
      if (isAtRest(state, world)) rests.push(index);
      for (const [ordinal, step] of stepsFrom(state, world).entries()) {
        transitions += 1;
        const after = take(state, step, world);
        const found = known.numberOf(keyOf(after));
        if (found === parents.length) {
          parents.push(index);
          ordinals.push(ordinal);
          next.push(parts.shared(after));
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
function scheduleTo(index: number, parents: Numbers, ordinals: Numbers, world: World): Step[] {
  const way: number[] = [];
  for (let at = index; at > 0; at = parents.at(at)) way.unshift(ordinals.at(at));
  let state = initialState(world);
  return way.map((ordinal) => {
    const step = stepsFrom(state, world)[ordinal]!;
    state = take(state, step, world);
    return step;
  });
}

/** The states of a layer share the parts that they have in common, so that a million of them fit into memory. */
class Parts {
  readonly #known = new Map<string, unknown>();

  shared(state: State): State {
    return {
      ...state,
      db: this.#one('tables', state.db),
      disk: this.#one('tables', state.disk),
      events: this.#one('events', state.events),
      producers: this.#one('producers', state.producers),
      relays: state.relays.map((relay) => this.#one('relay', relay)),
      seen: this.#one('seen', state.seen),
      left: this.#one('left', state.left),
    };
  }

  #one<Part>(kind: string, part: Part): Part {
    const text = kind + encode(part);
    const found = this.#known.get(text) as Part | undefined;
    if (found === undefined) this.#known.set(text, part);
    return found ?? part;
  }
}

/**
 * The states that were found, by fingerprints of 64 bits: of a hundred million, two have the same with a chance of one in four
 * thousand. The keys themselves would take thirty times as much memory.
 */
class Known {
  size = 0;
  #prints = new Uint32Array(1 << 17);
  /** By place: the number of the state, and one; 0: none. */
  #numbers = new Int32Array(1 << 16);

  /** Gives the number of a state: the next one if it was not found before. */
  numberOf(key: string): number {
    let [one, other] = [0, key.length];
    for (let index = 0; index < key.length; index += 1) {
      const code = key.charCodeAt(index);
      one = mixed(one, code, 0xcc9e2d51);
      other = mixed(other, code, 0x1b873593);
    }
    const place = this.#placeOf(one >>> 0, other >>> 0);
    const found = this.#numbers[place]!;
    if (found > 0) return found - 1;
    this.size += 1;
    this.#numbers[place] = this.size;
    if (this.size * 2 > this.#numbers.length) this.#grow();
    return this.size - 1;
  }

  /** Gives the place of a fingerprint, where it is written if it was not there. */
  #placeOf(one: number, other: number): number {
    let place = (one ^ other) & (this.#numbers.length - 1);
    while (
      this.#numbers[place]! > 0 &&
      (this.#prints[place * 2] !== one || this.#prints[place * 2 + 1] !== other)
    )
      place = (place + 1) & (this.#numbers.length - 1);
    this.#prints[place * 2] = one;
    this.#prints[place * 2 + 1] = other;
    return place;
  }

  #grow(): void {
    const [prints, numbers] = [this.#prints, this.#numbers];
    this.#prints = new Uint32Array(prints.length * 2);
    this.#numbers = new Int32Array(numbers.length * 2);
    for (const [place, number] of numbers.entries())
      if (number > 0) this.#numbers[this.#placeOf(prints[place * 2]!, prints[place * 2 + 1]!)] = number;
  }
}

/** One step of the hash Murmur3. */
function mixed(hash: number, code: number, factor: number): number {
  const next = hash ^ Math.imul(code, factor);
  return (Math.imul((next << 13) | (next >>> 19), 5) + 0xe6546b64) | 0;
}

/** The steps between states that come sooner or later. */
class Edges {
  readonly #from = new Numbers();
  readonly #to = new Numbers();

  add(from: number, to: number): void {
    if (from === to) return;
    this.#from.push(from);
    this.#to.push(to);
  }

  /** Gives the first state from which none of these can be reached without a fault; -1: there is none. */
  firstWithoutWayTo(rests: readonly number[], states: number): number {
    const starts = new Int32Array(states + 1);
    for (let edge = 0; edge < this.#to.length; edge += 1) starts[this.#to.at(edge) + 1]! += 1;
    for (let state = 0; state < states; state += 1) starts[state + 1]! += starts[state]!;
    const ends = starts.slice();
    const into = new Int32Array(this.#to.length);
    for (let edge = 0; edge < this.#to.length; edge += 1)
      into[ends[this.#to.at(edge)]!++] = this.#from.at(edge);
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

/** A list of whole numbers, four bytes each. */
class Numbers {
  length = 0;
  #items = new Int32Array(1 << 16);

  constructor(first: readonly number[] = []) {
    for (const item of first) this.push(item);
  }

  push(item: number): void {
    if (this.length === this.#items.length) {
      const shorter = this.#items;
      this.#items = new Int32Array(shorter.length * 2);
      this.#items.set(shorter);
    }
    this.#items[this.length] = item;
    this.length += 1;
  }

  at(index: number): number {
    return this.#items[index]!;
  }
}

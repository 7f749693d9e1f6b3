import { stepsFrom, take } from '../next.ts';
import type { State } from '../state.ts';
import { FAULTS } from '../steps.ts';
import type { Step } from '../steps.ts';
import { initialState } from '../world.ts';
import type { World } from '../world.ts';
import { isPlayed } from './play.ts';

/** Schedules that together take every step from every state of a scope; each goes on until nothing new is near. */
export function* covering(world: World, keyOf: (state: State) => string): Generator<Step[]> {
  const known = new Map<string, number>();
  const states: State[] = [];
  const edges: { readonly step: Step; readonly to: number }[][] = [];
  const note = (state: State) => {
    const key = keyOf(state);
    const found = known.get(key);
    if (found !== undefined) return found;
    known.set(key, states.length);
    states.push(state);
    return states.length - 1;
  };
  note(initialState(world));
  for (let index = 0; index < states.length; index += 1)
    edges.push(
      stepsFrom(states[index]!, world)
        .filter(isPlayed)
        .map((step) => ({ step, to: note(take(states[index]!, step, world)) })),
    );
  const left = edges.map((of) => new Set(of.keys()));
  for (let way = wayToNew(0, edges, left); way; way = wayToNew(0, edges, left)) {
    const schedule: Step[] = [];
    let at = 0;
    for (let more: readonly number[] | null = way; more; more = wayToNew(at, edges, left)) {
      for (const place of more) {
        left[at]!.delete(place);
        const { step, to } = edges[at]![place]!;
        schedule.push(step);
        at = to;
      }
    }
    yield schedule;
  }
}

/** The shortest way to a step that was not taken yet. */
function wayToNew(
  from: number,
  edges: readonly (readonly { readonly to: number }[])[],
  left: readonly ReadonlySet<number>[],
): readonly number[] | null {
  const came = new Map<number, readonly [before: number, place: number]>([[from, [-1, -1]]]);
  for (const at of came.keys()) {
    const [fresh] = left[at]!;
    if (fresh !== undefined) {
      const way = [fresh];
      for (let [before, place] = came.get(at)!; before !== -1; [before, place] = came.get(before)!)
        way.unshift(place);
      return way;
    }
    for (const [place, { to }] of edges[at]!.entries()) if (!came.has(to)) came.set(to, [at, place]);
  }
  return null;
}

/** Of a schedule that would go on. */
const MOST_STEPS = 80;

/** What goes wrong is so seldom the next step, where anything else can happen. */
const FAULTS_SHARE = 0.2;

/** A way through a scope by chance. @param random in [0, 1). */
export function wander(world: World, random: () => number): Step[] {
  const schedule: Step[] = [];
  for (let state = initialState(world); schedule.length < MOST_STEPS;) {
    const all = stepsFrom(state, world).filter(isPlayed);
    const [usual, faults] = [all.filter(isUsual), all.filter((step) => !isUsual(step))];
    const isFault = usual.length === 0 || (faults.length > 0 && random() < FAULTS_SHARE);
    const steps = isFault ? faults : usual;
    const step = steps[Math.floor(random() * steps.length)];
    if (!step) break;
    schedule.push(step);
    state = take(state, step, world);
  }
  return schedule;
}

const isUsual = ({ name }: Step) => !FAULTS.has(name);

/** Goes on with a schedule until nothing happens any more by itself. */
export function toItsEnd(schedule: readonly Step[], world: World): Step[] {
  const whole = [...schedule];
  let state = schedule.reduce((before, step) => take(before, step, world), initialState(world));
  while (whole.length < MOST_STEPS) {
    const step = stepsFrom(state, world).find((one) => isPlayed(one) && isUsual(one));
    if (!step) break;
    whole.push(step);
    state = take(state, step, world);
  }
  return whole;
}

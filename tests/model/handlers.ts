import { settleAlone, settleFailure } from './lanes.ts';
import { conclude, failed, handable } from './runs.ts';
import type { Run, State } from './state.ts';
import type { Step, StepName } from './steps.ts';
import { mayHappen, spend } from './world.ts';
import type { World } from './world.ts';

/** What handlers may do next, in a relay's hands. `what` is ten times the run's place among the relay's, and the delivery's. */
export function* handlerSteps(state: State, who: number, world: World): Generator<Step> {
  for (const [index, run] of state.relays[who]!.runs.entries()) {
    const step = (name: StepName, place: number) => ({ name, who, what: index * 10 + place });
    for (const place of handable(run, world)) yield step('hand', place);
    const running = run.ends.flatMap((end, place) => (end === 'running' ? [place] : []));
    // Those of one transaction, or of one batch, end together.
    const ends = world.scope.handler === 'plain' ? running : running.slice(0, 1);
    for (const place of ends) {
      yield step('ok', place);
      if (mayHappen(state, 'throw')) {
        yield step('throw', place);
        if (running.length > 1 && world.scope.handler === 'transactional') yield step('throw second', place);
        if (running.length > 1 && world.scope.handler === 'batch') yield step('take one', place);
      }
      if (
        mayHappen(state, 'throw for good') &&
        (running.length === 1 || world.scope.handler === 'transactional')
      )
        yield step('throw for good', place);
    }
  }
}

export function takeHandlerStep(state: State, step: Step, world: World): void {
  const { name, who, what } = step;
  const relay = state.relays[who]!;
  const run = relay.runs[Math.floor(what / 10)]!;
  const place = what % 10;
  if (name === 'hand') hand(state, run, place, world);
  else if (name === 'ok') succeed(state, who, run, world);
  else fall(state, run, place, name, world);
  conclude(run, world);
}

function hand(state: State, run: Run, place: number, world: World): void {
  const { scope, mistake } = world;
  const last = scope.handler === 'plain' || place <= run.aloneTo ? place : run.ends.length - 1;
  for (let index = place; index <= last; index += 1) {
    if (run.ends[index] !== '') break;
    const event = run.events[index]!;
    const position = run.positions[index]!;
    const delivery = state.db.deliveries.find((one) => one.home === run.home && one.position === position);
    const isAlone = scope.handler === 'batch' && (delivery?.attempts ?? 0) > 0;
    if (isAlone && index > place) break;
    const refuses =
      scope.refusesReplays && (delivery?.replays ?? 0) > 0 && mistake !== 'refused-replay-handed-over';
    const seen = state.seen[run.home]![event]!;
    if (refuses) {
      run.ends[index] = 'dead';
      seen.threw += 1;
      seen.hasEnded = true;
      continue;
    }
    run.ends[index] = 'running';
    // The others of a transaction, or of a batch, have their turn when it has got so far.
    if (index === place) seen.hasBegun = true;
    if (state.named[position] === -1) state.named[position] = event;
    if (isAlone) break;
  }
}

function succeed(state: State, who: number, run: Run, world: World): void {
  const places = run.ends.flatMap((end, place) => (end === 'running' ? [place] : []));
  const { handler } = world.scope;
  const ended = handler === 'plain' ? places.slice(0, 1) : places;
  if (handler === 'transactional' && !settleAlone(state, who, run, places, world)) {
    // Another relay has the lane: all is rolled back.
    for (const place of places) run.ends[place] = '';
    run.isDone = run.isOver = true;
    return;
  }
  for (const place of ended) {
    if (handler !== 'transactional') run.ends[place] = 'delivered';
    const seen = state.seen[run.home]![run.events[place]!]!;
    seen.returned += 1;
    seen.hasBegun = seen.hasEnded = true;
  }
}

function fall(state: State, run: Run, place: number, name: StepName, world: World): void {
  const { scope, mistake } = world;
  spend(state, name === 'throw for good' ? name : 'throw');
  const running = run.ends.flatMap((end, index) => (end === 'running' ? [index] : []));
  const seenOf = (at: number) => state.seen[run.home]![run.events[at]!]!;
  const thrower = name === 'throw second' || name === 'take one' ? running[1]! : place;
  seenOf(thrower).threw += 1;
  if (scope.handler === 'plain') return failed(state, run, place, world, name === 'throw for good');
  for (const index of running) run.ends[index] = '';
  if (scope.handler === 'batch') {
    if (name === 'take one') {
      run.ends[place] = 'delivered';
      Object.assign(seenOf(place), { returned: seenOf(place).returned + 1, hasEnded: true });
    }
    if (mistake === 'batch-settled-past-its-failure')
      for (const index of running) if (index !== thrower) run.ends[index] = 'delivered';
    return failed(state, run, thrower, world, name === 'throw for good');
  }
  if (thrower !== place) {
    if (mistake === 'innocent-burnt-by-shared-commit') return failed(state, run, place, world);
    run.aloneTo = thrower;
    return;
  }
  failed(state, run, place, world, name === 'throw for good');
  if (mistake !== 'failure-in-handler-transaction') return;
  seenOf(place).effects += 1;
  settleFailure(state, run, place);
}

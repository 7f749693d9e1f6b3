import { conclude } from './runs.ts';
import { abandon, inStrand, laneOf } from './lanes.ts';
import { end } from './producers.ts';
import { copyTables, instantsOf } from './state.ts';
import type { Lane, State, Tables } from './state.ts';
import type { Step, StepName } from './steps.ts';
import { mayHappen, newRelay, spend } from './world.ts';
import type { World } from './world.ts';

/** What may go wrong next, and what time brings. */
export function* faultSteps(state: State, world: World): Generator<Step> {
  const step = (name: StepName, who = 0, what = 0) => ({ name, who, what });
  for (const [who, relay] of state.relays.entries()) {
    if (relay.isStopped) yield step('wake', who);
    else if (mayHappen(state, 'stop') && relay.runs.length > 0) yield step('stop', who);
    const isAtWork = relay.phase !== 'idle' || relay.runs.length > 0;
    if (mayHappen(state, 'kill') && isAtWork) yield step('kill', who);
  }
  for (const [index, lane] of state.db.lanes.entries()) {
    if (lane.token > 0 && lane.due === 'no' && mayEnd(state, lane, world))
      yield step('lease ends', lane.token - 1, index);
    if (lane.due === 'later') yield step('due', 0, index);
  }
  if (instantsOf(state).some((at) => at > state.now)) yield step('time passes');
  if (mayHappen(state, 'step back')) for (let at = 0; at < state.now; at += 1) yield step('step back', 0, at);
  if (mayHappen(state, 'crash')) {
    yield step('crash');
    if (state.disk) yield step('crash and lose');
  }
  if (mayHappen(state, 'restart')) yield step('restart');
}

/** A lease outlasts the handlers under it, so it ends only where its relay is dead or stopped, or does not know of it. */
function mayEnd(state: State, { home, key, token }: Lane, { mistake }: World): boolean {
  const { isStopped, runs } = state.relays[token - 1]!;
  const run = runs.find((one) => one.home === home && one.key === key);
  return !run || isStopped || (mistake === 'lease-shorter-than-limit' && run.ends.includes('running'));
}

export function takeFault(state: State, { name, who, what }: Step, world: World): void {
  const relay = state.relays[who];
  switch (name) {
    case 'stop':
      spend(state, 'stop');
      relay!.isStopped = true;
      break;
    case 'wake':
      relay!.isStopped = false;
      break;
    case 'kill':
      spend(state, 'kill');
      abandon(state, who);
      state.relays[who] = newRelay();
      break;
    case 'lease ends':
      endLease(state, state.db.lanes[what]!, world);
      break;
    case 'due': {
      const lane = state.db.lanes[what]!;
      lane.due = 'now';
      for (const one of state.db.deliveries) if (inStrand(one, lane.home, lane.key, world)) one.waits = false;
      break;
    }
    case 'time passes':
      state.now = Math.min(...instantsOf(state).filter((at) => at > state.now)) + 0.5;
      break;
    case 'step back':
      spend(state, 'step back');
      state.now = what + 0.5;
      state.era += 1;
      break;
    case 'crash':
    case 'crash and lose':
      spend(state, 'crash');
      if (name === 'crash and lose') state.db = copyTables(state.disk!);
      restart(state);
      break;
    default:
      spend(state, 'restart');
      restart(state);
  }
}

/** Its relay can't begin anything more under it. */
function endLease(state: State, lane: Lane, world: World): void {
  lane.due = 'now';
  // It waits for the disk: `postbud_tidy_1`.
  state.disk = null;
  const { isStopped, runs } = state.relays[lane.token - 1]!;
  const run = runs.find(({ home, key }) => home === lane.home && key === lane.key);
  if (!run) return;
  run.isOver = true;
  run.isExcused = isStopped;
  conclude(run, world);
}

/** Ends all transactions but prepared ones. Relays go on with what they have in their hands. */
function restart(state: State): void {
  state.disk = null;
  state.life += 1;
  for (const producer of state.producers) {
    const isOpen = producer.phase !== 'idle' && producer.phase !== 'prepared';
    if (isOpen) end(state, producer, 'gone');
  }
  for (const [who, relay] of state.relays.entries()) {
    abandon(state, who);
    for (const run of relay.runs) if (!isHeld(state.db, run, who)) run.isExcused = true;
  }
}

function isHeld(db: Tables, { home, key }: Pick<Lane, 'home' | 'key'>, who: number): boolean {
  return laneOf(db, home, key)?.token === who + 1;
}

import { abandon } from './placing.ts';
import { end } from './producers.ts';
import { copyTables, instantsOf } from './state.ts';
import type { State } from './state.ts';
import type { Step, StepName } from './steps.ts';
import { isAtWork, noteFailure } from './turns.ts';
import { mayHappen, newRelay, spend } from './world.ts';
import type { World } from './world.ts';

/** What may go wrong next, and what time brings. */
export function* faultSteps(state: State, world: World): Generator<Step> {
  const step = (name: StepName, who = 0, what = 0) => ({ name, who, what });
  for (const [who, relay] of state.relays.entries()) {
    if (relay.isStopped) yield step('wake', who);
    else if (mayHappen(state, 'stop') && relay.run) yield step('stop', who);
    const isBusy = relay.phase !== 'idle' || relay.run !== null || relay.lost > 0;
    if (mayHappen(state, 'kill') && isBusy) yield step('kill', who);
  }
  const { lane, exceptions } = state.db;
  if (lane.isLeased && !lane.isOver && mayEnd(state, world)) yield step('lease ends');
  if (exceptions.some(({ waits }) => waits)) yield step('due');
  if (instantsOf(state).some((at) => at > state.now)) yield step('time passes');
  if (mayHappen(state, 'step back')) for (let at = 0; at < state.now; at += 1) yield step('step back', 0, at);
  if (mayHappen(state, 'crash')) {
    yield step('crash');
    if (state.disk) yield step('crash and lose');
  }
}

/** A lease outlasts the handlers under it, so it ends only where its relay is dead or stopped, or does not know of it. */
function mayEnd({ relays, db }: State, { mistake }: World): boolean {
  return relays.every(({ run, isStopped, ...relay }) => {
    if (!run || isStopped) return true;
    if (mistake === 'lease-shorter-than-limit') return true;
    // While its database does not answer, it gives up when its lease is over.
    const isHolder = run.token === db.lane.token && !run.isRepeated;
    return !isHolder && !isAtWork({ run, isStopped, ...relay });
  });
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
      endLease(state);
      break;
    case 'due':
      for (const one of state.db.exceptions) {
        one.waits = false;
        if (one.due === 'later') one.due = 'now';
      }
      break;
    case 'time passes':
      state.now = Math.min(...instantsOf(state).filter((at) => at > state.now)) + 0.5;
      break;
    case 'step back':
      spend(state, 'step back');
      state.now = what + 0.5;
      state.era += 1;
      break;
    default:
      spend(state, 'crash');
      if (name === 'crash and lose') state.db = copyTables(state.disk!);
      restart(state, world);
  }
}

/** Its relay begins nothing more under it. */
function endLease(state: State): void {
  const { lane } = state.db;
  lane.isOver = true;
  for (const relay of state.relays) {
    const { run, isStopped } = relay;
    if (!run || run.token !== lane.token) continue;
    if (run.isRepeated && !isStopped) {
      relay.run = null;
      relay.isRepeating = false;
      continue;
    }
    run.isOver = true;
    run.isExcused = isStopped;
  }
}

/** Ends all transactions but prepared ones. Relays go on with what they have in their hands. */
function restart(state: State, world: World): void {
  const { isTransactional } = world.scope;
  state.disk = null;
  state.life += 1;
  for (const producer of state.producers) {
    const isOpen = producer.phase !== 'idle' && producer.phase !== 'prepared';
    if (isOpen) end(state, producer, 'gone');
  }
  const { lane } = state.db;
  for (const [who, relay] of state.relays.entries()) {
    if (relay.phase !== 'idle') noteFailure(relay, world);
    abandon(state, who);
    const { run } = relay;
    // Its transaction ended with the server.
    if (run && isTransactional)
      for (const one of run.hand)
        if (one.state === 'running') {
          one.state = 'left';
          run.isCut = true;
        }
    if (run && (run.token !== lane.token || run.number !== lane.number)) run.isExcused = true;
  }
}

import { faultSteps, takeFault } from './faults.ts';
import { fanOutSteps, hasMarkers, look, takeFanOutStep } from './fan-out.ts';
import { handlerSteps, takeHandlerStep } from './handlers.ts';
import { finish, isDue } from './lanes.ts';
import { operatorSteps, takeOperatorStep } from './operators.ts';
import { producerSteps, takeProducerStep } from './producers.ts';
import { copy, rankInstants } from './state.ts';
import type { State } from './state.ts';
import { STEPS } from './steps.ts';
import type { Step } from './steps.ts';
import { takeTimerStep, timerSteps } from './timers.ts';
import type { World } from './world.ts';

/** All that may happen next. */
export function stepsFrom(state: State, world: World): Step[] {
  const steps: Step[] = [...producerSteps(state, world), ...timerSteps(state, world)];
  for (const [who, relay] of state.relays.entries()) {
    if (relay.isStopped) continue;
    if (relay.phase === 'idle') {
      if (hasWork(state, who, world)) steps.push({ name: 'look', who, what: 0 });
    } else if (relay.phase === 'finish') steps.push({ name: 'finish', who, what: 0 });
    else steps.push(...fanOutSteps(state, who, world));
    if (relay.runs.length > 0) steps.push(...handlerSteps(state, who, world));
  }
  steps.push(...operatorSteps(state, world), ...faultSteps(state, world));
  return steps;
}

/** Whether a turn would change anything. One that would not is left out. */
function hasWork(state: State, who: number, world: World): boolean {
  const relay = state.relays[who]!;
  if (hasMarkers(state, relay) || relay.runs.some(({ isDone }) => isDone)) return true;
  if (!world.scope.handsOver || relay.runs.length >= world.scope.maxLanes) return false;
  return state.db.lanes.some((lane) => isDue(state, lane, who, world));
}

/** Takes a step. @returns the state after it. */
export function take(before: State, step: Step, world: World): State {
  const state = copy(before);
  const [who] = STEPS[step.name];
  if (step.name === 'look') look(state, step.who, world);
  else if (step.name === 'finish') finish(state, step.who, world);
  else if (who === 'producer') takeProducerStep(state, step);
  else if (who === 'timer') takeTimerStep(state, step, world);
  else if (who === 'operator') takeOperatorStep(state, step, world);
  else if (OF_FAN_OUT.has(step.name)) takeFanOutStep(state, step, world);
  else if (OF_HANDLERS.has(step.name)) takeHandlerStep(state, step, world);
  else takeFault(state, step, world);
  rankInstants(state);
  return state;
}

const OF_FAN_OUT: ReadonlySet<string> = new Set([
  'clock',
  'locks',
  'try',
  'clock again',
  'picks',
  'place',
  'place old',
]);
export const OF_HANDLERS: ReadonlySet<string> = new Set([
  'hand',
  'ok',
  'throw',
  'throw for good',
  'take one',
  'throw second',
]);

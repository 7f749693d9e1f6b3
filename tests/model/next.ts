import { faultSteps, takeFault } from './faults.ts';
import { handlerSteps, takeHandlerStep } from './handlers.ts';
import { operatorSteps, takeOperatorStep } from './operators.ts';
import { placingSteps, takePlacingStep } from './placing.ts';
import { producerSteps, takeProducerStep } from './producers.ts';
import { copy, normalise } from './state.ts';
import type { State } from './state.ts';
import { OF_HANDLERS, OF_PLACING, OF_TURNS, STEPS } from './steps.ts';
import type { Step } from './steps.ts';
import { takeTurnStep, turnSteps } from './turns.ts';
import type { World } from './world.ts';

/** All that may happen next. */
export function stepsFrom(state: State, world: World): Step[] {
  const steps: Step[] = [...producerSteps(state, world)];
  for (const [who, relay] of state.relays.entries()) {
    if (relay.isStopped) continue;
    steps.push(...turnSteps(state, who, world), ...placingSteps(state, who, world));
    if (relay.run) steps.push(...handlerSteps(state, who, world));
  }
  steps.push(...operatorSteps(state, world), ...faultSteps(state, world));
  return steps;
}

/** Takes a step. @returns the state after it. */
export function take(before: State, step: Step, world: World): State {
  const state = copy(before);
  const { name, who } = step;
  const [kind] = STEPS[name];
  if (kind === 'producer') takeProducerStep(state, step);
  else if (kind === 'operator') takeOperatorStep(state, step, world);
  else if (OF_TURNS.has(name)) takeTurnStep(state, name, who, world);
  else if (OF_PLACING.has(name)) takePlacingStep(state, name, who, world);
  else if (OF_HANDLERS.has(name)) takeHandlerStep(state, step, world);
  else takeFault(state, step, world);
  normalise(state);
  return state;
}

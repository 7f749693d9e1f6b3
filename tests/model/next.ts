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
  return world.isCoarse ? steps.filter((step) => isNext(state, step)) : steps;
}

/** Whether nobody is in the middle of a call of the database but who takes this step. */
function isNext({ producers, relays }: State, { name, who }: Step): boolean {
  const emitter = producers.findIndex(({ phase }) => phase === 'locked' || phase === 'stamped');
  if (emitter !== -1) return STEPS[name][0] === 'producer' && who === emitter;
  const placer = relays.findIndex(({ phase, nextBound }) => OF_PLACING.has(phase as 'clock') || nextBound > 0);
  return placer === -1 || (who === placer && (OF_PLACING.has(name) || OF_TURNS.has(name)));
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

import { PROMISES, RULES } from '../chaos/promises/promises.ts';
import { take } from './next.ts';
import type { Search } from './search.ts';
import type { State } from './state.ts';
import { OF_HANDLERS, STEPS } from './steps.ts';
import type { Step } from './steps.ts';
import { initialState } from './world.ts';
import type { World } from './world.ts';

/** Writes the shortest schedule that breaks a promise as steps that a person can follow. */
export function inWords({ rule, schedule }: NonNullable<Search['fall']>, world: World): string {
  const promise = RULES[rule];
  let state = initialState(world);
  const lines = schedule.map((step, index) => {
    const line = `${String(index + 1).padStart(4)}  ${sentenceOf(step, state)}`;
    state = take(state, step, world);
    return line;
  });
  const what =
    rule === 'outcome'
      ? '      From here on, what was promised cannot come about any more.'
      : '      Here the promise is broken.';
  return [`Breaks promise ${promise} (${rule}): ${PROMISES[promise]}.`, '', ...lines, what].join('\n');
}

/** Says what a step does, in the state before it. Events are A, B, C and so on. */
function sentenceOf({ name, who, what }: Step, state: State): string {
  const [kind, does] = STEPS[name];
  switch (kind) {
    case 'producer':
      return `producer ${who + 1} ${does} (${letter(state.producers[who]!.event)})`;
    case 'relay': {
      const event = OF_HANDLERS.has(name) ? state.relays[who]!.run!.hand[what]!.event : null;
      return `relay ${who + 1} ${does}${event === null ? '' : ` (${letter(event)})`}`;
    }
    case 'operator':
      return `an operator ${does}${what > 0 ? ` (${letter(state.db.log[what - 1]!)})` : ''}`;
    default:
      return `the ${kind} ${does}`;
  }
}

const letter = (event: number) => String.fromCharCode(65 + event);

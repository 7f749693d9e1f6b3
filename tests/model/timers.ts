import type { State } from './state.ts';
import type { Step, StepName } from './steps.ts';
import { mayHappen, spend, tick } from './world.ts';
import type { World } from './world.ts';

/** What may become of timers: `postbud_set_timer_1`, `postbud_cancel_timer`, `postbud_release_timers_1`. The first is due first. */
export function* timerSteps(state: State, { mistake }: World): Generator<Step> {
  const { timers } = state;
  for (const [who, { state: is, isDue, heldBy }] of timers.entries()) {
    const step = (name: StepName) => ({ name, who, what: 0 });
    const earlier = timers.slice(0, who);
    if (is === 'none' && earlier.every((timer) => timer.state !== 'none')) yield step('set timer');
    if (is === 'set' && !isDue && earlier.every((timer) => timer.isDue || timer.state === 'cancelled'))
      yield step('timer due');
    if (is === 'set' && heldBy === 'nobody' && mayHappen(state, 'cancel')) yield step('cancel');
    if (heldBy === 'producer') {
      yield step('cancel commits');
      yield step('cancel rolls back');
    }
    if (heldBy === 'relay') yield step('release');
    // One release at a time. What a transaction holds is passed over, and holds back the later ones.
    const isReleasing = timers.some((timer) => timer.heldBy === 'relay');
    const before = earlier.filter((timer) => timer.state === 'set' && timer.isDue);
    const arePassed = mistake === 'timer-passes-a-locked-one' && before.every(isLocked);
    const mayPass = before.length === 0 || arePassed;
    if (is === 'set' && isDue && heldBy === 'nobody' && !isReleasing && mayPass) yield step('take');
  }
}

const isLocked = ({ heldBy: holder }: State['timers'][number]) => holder === 'producer';

export function takeTimerStep(state: State, { name, who }: Step, { scope }: World): void {
  const timer = state.timers[who]!;
  const event = state.events[state.events.length - scope.timers + who]!;
  switch (name) {
    case 'set timer':
      timer.state = 'set';
      break;
    case 'timer due':
      timer.isDue = true;
      break;
    case 'cancel':
      spend(state, 'cancel');
      timer.heldBy = 'producer';
      break;
    case 'cancel commits':
      Object.assign(timer, { state: 'cancelled', heldBy: 'nobody' });
      break;
    case 'cancel rolls back':
      timer.heldBy = 'nobody';
      break;
    case 'take':
      timer.heldBy = 'relay';
      Object.assign(event, { created: tick(state), era: state.era, fate: 'open' });
      break;
    default:
      Object.assign(timer, {
        state: timer.state === 'cancelled' ? 'cancelled' : 'released',
        heldBy: 'nobody',
      });
      event.fate = 'committed';
  }
}

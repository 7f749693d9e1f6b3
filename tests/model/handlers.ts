import { settle } from './lane.ts';
import { deliver, fail, handable, take } from './progress.ts';
import type { InHand, Run, State } from './state.ts';
import type { Step, StepName } from './steps.ts';
import { keepDisk, mayHappen, spend } from './world.ts';
import type { World } from './world.ts';

/** What handlers may do next, in a relay's hands. `what` is the delivery's place in them. */
export function* handlerSteps(state: State, who: number, { scope }: World): Generator<Step> {
  const run = state.relays[who]!.run!;
  const mayBegin = new Set(handable(run));
  for (const [what, one] of run.hand.entries()) {
    const step = (name: StepName) => ({ name, who, what });
    if (mayBegin.has(one)) {
      // A transaction's settlement has to come behind what is on its way.
      if (!scope.isTransactional || !run.outcome) yield step('hand');
      if (mayHappen(state, 'cut')) yield step('cut');
    }
    if (one.state !== 'running') continue;
    yield step('ok');
    if (mayHappen(state, 'throw')) yield step('throw');
    if (mayHappen(state, 'throw for good')) yield step('throw for good');
    if (scope.isTransactional && mayHappen(state, 'commit lost'))
      yield* [step('commit lost'), step('commit fails')];
  }
}

export function takeHandlerStep(state: State, { name, who, what }: Step, world: World): void {
  const relay = state.relays[who]!;
  const run = relay.run!;
  const one = run.hand[what]!;
  const seen = state.seen[one.event]!;
  switch (name) {
    case 'hand':
      one.state = 'running';
      seen.hasBegun = true;
      if (run.isOfBackfill && !one.isException && !state.seen[0]!.hasEnded) state.broken = 'backfill';
      break;
    case 'cut':
      spend(state, 'cut');
      run.isCut = true;
      break;
    case 'ok':
      if (world.scope.isTransactional) {
        if (commit(state, run, one, world)) {
          run.number += run.isDoubtful ? 2 : 1;
          run.isDoubtful = false;
        }
        // Another relay has the lane: all is rolled back.
        else relay.run = null;
      } else {
        seen.hasReturned = seen.hasEnded = true;
        deliver(run, one);
      }
      break;
    case 'throw':
    case 'throw for good':
      spend(state, name);
      seen.blamed += 1;
      fail(state, run, one, world, name === 'throw for good');
      break;
    default: {
      // Its answer is lost: the relay does not know whether it was made.
      spend(state, 'commit lost');
      const before = run.hand.map((other) => ({ ...other }));
      const { head, exceptional, blocked, carefulTo } = run;
      if (name === 'commit lost') commit(state, run, one, world);
      Object.assign(run, { head, exceptional, blocked, carefulTo, hand: before });
      before[what]!.state = 'left';
      Object.assign(run, { isDoubtful: true, isCut: true, carefulTo: one.position });
    }
  }
}

/** Commits a handler's effects together with what the run has recorded. @returns whether it held the lane. */
function commit(state: State, run: Run, one: InHand, world: World): boolean {
  keepDisk(state);
  const seen = state.seen[one.event]!;
  if (world.mistake === 'effects-outside-of-the-transaction') seen.effects += 1;
  deliver(run, one);
  const settled = settle(state, run, take(run, false, world), world);
  if (settled !== 'held') return false;
  if (world.mistake !== 'effects-outside-of-the-transaction') seen.effects += 1;
  seen.hasReturned = seen.hasEnded = true;
  // It waits for the disk, and with it all that was written before.
  state.disk = null;
  return true;
}

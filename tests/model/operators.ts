import { letGo, makeDue, open, release } from './lane.ts';
import type { State } from './state.ts';
import type { Step, StepName } from './steps.ts';
import { keyOfEvent, mayHappen, spend } from './world.ts';
import type { World } from './world.ts';

/** What operators may do next. `what` is a position. Each action is a transaction that locks the lane first, and waits for the disk. */
export function* operatorSteps(state: State, { scope }: World): Generator<Step> {
  const step = (name: StepName, what = 0) => ({ name, who: 0, what });
  const { db } = state;
  for (const [index, event] of db.log.entries()) {
    const position = index + 1;
    const one = db.exceptions.find((other) => other.position === position);
    const isOwn = !(scope.joinsLate && event === 0) || one !== undefined;
    const isEnded = one ? ['delivered', 'dead', 'dismissed'].includes(one.state) : position <= db.lane.head;
    if (mayHappen(state, 'replay') && isOwn && isEnded) yield step('replay', position);
    if (one?.state === 'dead' && one.isOpen) yield step('dismiss', position);
  }
  if (db.backfill === 'none' && mayHappen(state, 'backfill')) yield step('open backfill');
  if (db.backfill === 'open') {
    const { isLeased, isOver, claimedTo, head } = db.lane;
    const isAwaited = isLeased && !isOver && claimedTo > head;
    if (!isAwaited) yield step('begin backfill');
  }
  if (db.backfill === 'begun') yield step('write backfill');
}

export function takeOperatorStep(state: State, { name, what }: Step, world: World): void {
  const { db } = state;
  const one = db.exceptions.find(({ position }) => position === what);
  state.disk = null;
  switch (name) {
    case 'replay':
      spend(state, 'replay');
      open(db, what, (one?.replays ?? 0) + 1, world);
      break;
    case 'dismiss':
      Object.assign(one!, { state: 'dismissed', isOpen: false, isHeld: false, due: 'no', waits: false });
      makeDue(db, keyOfEvent(one!.event, world), world);
      break;
    case 'open backfill':
      spend(state, 'backfill');
      db.backfill = 'open';
      break;
    case 'begin backfill':
      // Of a relay that died.
      if (db.lane.isLeased && db.lane.isOver) {
        if (world.mistake !== 'held-left-by-a-backfill') release(db);
        letGo(db, Math.max(db.lane.carefulTo, db.lane.claimedTo));
      }
      db.backfill = 'begun';
      break;
    default:
      open(db, 1, 0, world);
      db.backfill = 'none';
  }
}

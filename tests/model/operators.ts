import { inStrand, isOpen, laneFor, laneOf } from './lanes.ts';
import type { Delivery, State, Tables } from './state.ts';
import type { Step, StepName } from './steps.ts';
import { mayHappen, spend } from './world.ts';
import type { World } from './world.ts';

/** What operators may do next. `what` is the delivery's place among all. Each action is a transaction that locks its lanes first. */
export function* operatorSteps(state: State, world: World): Generator<Step> {
  const { db } = state;
  const step = (name: StepName, what = 0) => ({ name, who: 0, what });
  for (const [what, delivery] of db.deliveries.entries()) {
    const isKnown = !world.scope.refusesReplays || world.mistake === 'replay-reaches-refusing';
    if (!isOpen(delivery)) {
      if (mayHappen(state, 'replay') && isKnown) yield step('replay', what);
      if (mayHappen(state, 'replay of another release')) yield step('replay unknowing', what);
    }
    if (delivery.state === 'dead' && (world.scope.haltsAtDeadLetter || mayHappen(state, 'dismiss')))
      yield step('dismiss', what);
    if (mayHappen(state, 'skip') && isFirst(db, delivery, world)) yield step('skip', what);
  }
  if (db.isPaused) yield step('resume');
  else if (mayHappen(state, 'pause')) yield step('pause');
  yield* backfillSteps(state, step);
}

function* backfillSteps(state: State, step: (name: StepName) => Step): Generator<Step> {
  const { backfill, deliveries } = state.db;
  if (mayHappen(state, 'open backfill') && state.fanOutLock === -1) yield step('open backfill');
  if (!backfill) return;
  const isWritten = deliveries.some(({ backfilled }) => backfilled);
  // Relays let go of what they had claimed.
  if (!backfill.isBegun && laneOf(state.db, 0, 0)!.token === 0) yield step('begin backfill');
  if (backfill.isBegun && !isWritten) yield step('write backfill');
  if (isWritten) yield step('end backfill');
}

/** Whether it holds a lane that no relay holds. */
function isFirst(db: Tables, delivery: Delivery, world: World): boolean {
  const lane = laneFor(db, delivery, world);
  const { home, position, event } = delivery;
  const key = world.scope.keys[event] ?? 0;
  const isBefore = (one: Delivery) =>
    inStrand(one, home, key, world) && one.position < position && isOpen(one);
  return isOpen(delivery) && lane.token === 0 && lane.due !== 'at its front' && !db.deliveries.some(isBefore);
}

export function takeOperatorStep(state: State, { name, what }: Step, world: World): void {
  const { db } = state;
  const delivery = db.deliveries[what]!;
  switch (name) {
    case 'replay':
    case 'replay unknowing':
      spend(state, name === 'replay' ? 'replay' : 'replay of another release');
      putBack(db, delivery, world);
      break;
    case 'skip':
      spend(state, 'skip');
      skip(db, delivery, world);
      state.seen[delivery.home]![delivery.event]!.hasEnded = true;
      break;
    case 'dismiss':
      delivery.state = 'dismissed';
      release(db, world);
      break;
    case 'pause':
    case 'resume':
      if (name === 'pause') spend(state, 'pause');
      db.isPaused = name === 'pause';
      break;
    default:
      takeBackfillStep(state, name, world);
  }
  // It waits for the disk.
  state.disk = null;
}

/** Returns a delivery to pending, and the head to before it: `lib/bus/deliveries/operations/put-back.ts`. */
function putBack(db: Tables, delivery: Delivery, world: World): void {
  const lane = laneFor(db, delivery, world);
  Object.assign(delivery, { state: 'pending', attempts: 0, replays: delivery.replays + 1, waits: false });
  // Always to another value while a relay holds the lane, so that its settlement sees that the head moved.
  if (world.mistake !== 'watermark-left-on-replay')
    lane.head = Math.min(lane.head, delivery.position - 1) - (lane.token > 0 ? 1 : 0);
  if (lane.token === 0) lane.due = 'now';
  release(db, world);
}

/** Makes a dead letter of the delivery that holds a lane. */
function skip(db: Tables, delivery: Delivery, world: World): void {
  const lane = laneFor(db, delivery, world);
  const isShared = world.scope.keys.length > 0;
  Object.assign(delivery, { state: 'dead', waits: false });
  // What a backfill writes may come before it.
  if ((!isShared || lane.key > 0) && db.backfill === null) lane.head = delivery.position;
  lane.tail = Math.max(lane.tail, delivery.position);
  lane.due = isShared || lane.tail > delivery.position ? 'now' : 'no';
  const isThrough = !db.deliveries.some((one) => inStrand(one, lane.home, lane.key, world) && isOpen(one));
  if (lane.key > 0 && isThrough) db.lanes = db.lanes.filter((other) => other !== lane);
}

/** Makes lanes due again whose front is gone or has moved: `lib/bus/deliveries/release.ts`. */
function release(db: Tables, world: World): void {
  db.halts = db.halts.filter(({ home, position }) =>
    db.deliveries.some((one) => one.home === home && one.position === position && one.state === 'dead'),
  );
  for (const lane of db.lanes) {
    const isHalted = db.halts.some(
      ({ home, position }) =>
        home === lane.home &&
        position <= lane.head &&
        db.deliveries.some((one) => one.position === position && inStrand(one, home, lane.key, world)),
    );
    const isBehind = db.backfill !== null && db.backfill.front <= lane.head;
    if (lane.due === 'at its front' && !isHalted && !isBehind) lane.due = 'now';
  }
}

/** A backfill of one event, which comes before all others of its lane: `lib/bus/deliveries/operations/backfill.ts`. */
function takeBackfillStep(state: State, name: StepName, world: World): void {
  const { db } = state;
  const lane = laneOf(db, 0, 0)!;
  switch (name) {
    case 'open backfill':
      spend(state, name);
      db.backfill = { front: 0, isBegun: false };
      break;
    case 'begin backfill':
      db.backfill!.isBegun = true;
      lane.head = 0;
      break;
    case 'write backfill':
      db.deliveries.unshift({
        home: 0,
        position: 1,
        event: 0,
        state: 'pending',
        attempts: 0,
        replays: 0,
        waits: false,
        backfilled: true,
      });
      db.backfill!.front = 1;
      wake(db, world);
      break;
    default:
      db.backfill = null;
      wake(db, world);
  }
}

/** Makes lanes due that nobody holds, whatever they waited for: older deliveries may come before it. */
function wake(db: Tables, world: World): void {
  for (const lane of db.lanes)
    if (lane.token === 0 && (lane.due === 'later' || (lane.due === 'no' && lane.tail > lane.head)))
      lane.due = 'now';
  release(db, world);
}

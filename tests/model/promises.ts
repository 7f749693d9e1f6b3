import type { Rule } from '../chaos/promises/promises.ts';
import type { InHand, Run, State } from './state.ts';
import { keyOfEvent } from './world.ts';
import type { World } from './world.ts';

/** A promise is a predicate over states, under the name that the chaos runs have for it. */
type Promise = (state: State, world: World) => boolean;

/** Those that must hold in each state. That nothing is lost (`outcome`) is also asked of what can become of a state: `isAtRest`. */
const PROMISES: readonly (readonly [rule: Rule, isKept: Promise])[] = [
  ['consistency', placedOnce],
  ['order', inOrder],
  ['overlap', oneAtATime],
  ['lease', longEnough],
  ['outcome', noneThatWasNot],
  ['attempts', chargedForItsOwn],
  ['effects', takenEffectOnce],
  ['halt', halted],
];

/** Gives the first promise that a state breaks; null: none. */
export function brokenIn(state: State, world: World): Rule | null {
  for (const [rule, isKept] of PROMISES) if (!isKept(state, world)) return rule;
  return state.broken;
}

/** An event has one place, and none while its marker is there. No exception stands beyond the head. */
function placedOnce({ db }: State): boolean {
  return (
    new Set(db.log).size === db.log.length &&
    !db.markers.some(({ event }) => db.log.includes(event)) &&
    db.exceptions.every(({ position }) => position <= db.lane.head)
  );
}

/** Events of the stream get places, and those of a key are handed over, in the order in which they were recorded. */
function inOrder({ events, seen, db }: State, world: World): boolean {
  for (const [older, first] of events.entries()) {
    if (first.fate !== 'committed') continue;
    const isOwn = !(world.scope.joinsLate && older === 0);
    const place = db.log.indexOf(older);
    for (const [newer, second] of events.entries()) {
      if (first.created >= second.created || first.era !== second.era || second.fate !== 'committed')
        continue;
      const other = db.log.indexOf(newer);
      if (other !== -1 && (place === -1 || place > other)) return false;
      const isBehind = isOwn && keyOfEvent(older, world) === keyOfEvent(newer, world);
      if (isBehind && seen[newer]!.hasBegun && !seen[older]!.hasEnded) return false;
    }
  }
  return true;
}

/** The handlers that run, of relays that nobody has stopped and whose claims no crash has taken back. */
function callsOf({ relays }: State): { readonly run: Run; readonly one: InHand }[] {
  return relays.flatMap(({ run }) =>
    run && !run.isExcused
      ? run.hand.filter(({ state }) => state === 'running').map((one) => ({ run, one }))
      : [],
  );
}

/** One handler at a time of a lane, or of a key. */
function oneAtATime(state: State): boolean {
  const calls = callsOf(state);
  return !calls.some(({ one }, index) => calls.slice(0, index).some((other) => other.one.key === one.key));
}

/** No lease is over while a handler is within its time limit. */
function longEnough(state: State): boolean {
  return !callsOf(state).some(({ run }) => run.isOver);
}

/** Nothing counts as delivered that was rolled back, or that its handler has not taken. */
function noneThatWasNot({ events, db, seen }: State, { scope }: World): boolean {
  return db.log.every((event, index) => {
    if (events[event]!.fate !== 'committed') return false;
    const one = db.exceptions.find(({ position }) => position === index + 1);
    const isOwn = !(scope.joinsLate && event === 0) || one !== undefined;
    const isDelivered = one ? one.state === 'delivered' : index < db.lane.head;
    return !isOwn || !isDelivered || seen[event]!.hasReturned;
  });
}

/** No more attempts than allowed, and each of them a failure of its own, or its relay's death. */
function chargedForItsOwn({ db, seen }: State, { scope }: World): boolean {
  return db.exceptions.every(
    ({ event, attempts, state }) =>
      attempts <= scope.maxAttempts && attempts - (state === 'delivered' ? 1 : 0) <= seen[event]!.blamed,
  );
}

/** What a transactional handler does happens once, and once more for each replay. */
function takenEffectOnce({ db, seen }: State): boolean {
  return seen.every(({ effects }, event) => {
    const position = db.log.indexOf(event) + 1;
    const one = db.exceptions.find((other) => other.position === position);
    const isDelivered = position > 0 && (one ? one.state === 'delivered' : position <= db.lane.head);
    return effects <= (one?.replays ?? 0) + (isDelivered ? 1 : 0);
  });
}

/** Nothing is handed over behind a dead letter that halts its lane, or its key. */
function halted(state: State, world: World): boolean {
  if (!world.scope.haltsAtDeadLetter) return true;
  return !callsOf(state).some(({ one }) =>
    state.db.exceptions.some(
      ({ position, event, state: is }) =>
        is === 'dead' && position < one.position && keyOfEvent(event, world) === one.key,
    ),
  );
}

/** Whether all that was promised has come about: every committed event has reached its end. */
export function isAtRest({ db, producers, events, relays, seen }: State, { scope }: World): boolean {
  if (db.markers.length > 0 || db.backfill !== 'none') return false;
  if (producers.some(({ phase, left }) => phase !== 'idle' || left > 0)) return false;
  if (relays.some(({ phase, isStopped, run }) => phase !== 'idle' || isStopped || run !== null)) return false;
  if (db.log.length < events.filter(({ fate }) => fate === 'committed').length) return false;
  if (!scope.handsOver) return true;
  if (db.lane.head < db.log.length || db.lane.isLeased || db.exceptions.some(({ isOpen }) => isOpen))
    return false;
  return seen.every(
    ({ hasEnded }, event) =>
      events[event]!.fate !== 'committed' || hasEnded || (scope.joinsLate && event === 0),
  );
}

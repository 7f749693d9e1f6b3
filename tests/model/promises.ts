import type { Rule } from '../chaos/promises/promises.ts';
import type { Run, State } from './state.ts';
import type { World } from './world.ts';

/** A promise is a predicate over states, under the name that the chaos runs have for it. */
type Promise = (state: State, world: World) => boolean;

/** Those that must hold in each state. That nothing is lost (`outcome`) is also asked of what can become of a state: `isAtRest`. */
const PROMISES: readonly (readonly [rule: Rule, isKept: Promise])[] = [
  ['order', inOrder],
  ['overlap', oneAtATime],
  ['holder', ({ usurped }) => !usurped],
  ['lease', longEnough],
  ['outcome', noneThatWasNot],
  ['attempts', chargedForItsOwn],
  [
    'effects',
    ({ seen }, { scope }) =>
      scope.handler !== 'transactional' || seen.flat().every((one) => one.effects === one.times),
  ],
  ['identity', namedOnce],
  ['halt', halted],
  ['backfill', afterTheBackfilled],
  ['refusal', refused],
  ['version', readable],
];

/** Gives the first promise that a state breaks; null: none. */
export function brokenIn(state: State, world: World): Rule | null {
  for (const [rule, isKept] of PROMISES) if (!isKept(state, world)) return rule;
  return null;
}

/** Events of one subscriber, or of one key of it, are handed over in the order in which they were recorded. */
function inOrder(state: State, { scope }: World): boolean {
  const { events, seen, db, timers } = state;
  const isReleasedFirst = timers.some(
    ({ state: is }, later) =>
      is === 'released' && timers.slice(0, later).some((timer) => timer.state === 'set' && timer.isDue),
  );
  if (isReleasedFirst) return false;
  const positions = new Map(db.deliveries.map(({ home, event, position }) => [home * 100 + event, position]));
  for (const [home, ofSubscriber] of seen.entries()) {
    for (const [older, first] of events.entries()) {
      if (first.fate !== 'committed' || (scope.joinsLate && older === 0)) continue;
      for (const [newer, second] of events.entries()) {
        const isBefore =
          first.created < second.created && first.era === second.era && second.fate === 'committed';
        if (!isBefore || (scope.keys[older] ?? 0) !== (scope.keys[newer] ?? 0)) continue;
        const own = positions.get(home * 100 + older) ?? Infinity;
        const other = positions.get(home * 100 + newer);
        if (other !== undefined && own > other) return false;
        if (ofSubscriber[newer]!.hasBegun && !ofSubscriber[older]!.hasEnded) return false;
      }
    }
  }
  return true;
}

interface Call {
  readonly run: Run;
  readonly place: number;
  readonly strand: string;
}

/** The handlers that run, of relays that nobody has stopped and whose claims no crash has taken back. */
function callsOf({ relays }: State): Call[] {
  return relays.flatMap(({ runs }) =>
    runs.flatMap((run) =>
      run.ends.flatMap((end, place) =>
        end === 'running' && !run.isExcused
          ? [{ run, place, strand: `${run.home} ${run.keys[place]!}` }]
          : [],
      ),
    ),
  );
}

/** One handler at a time of a lane, or of a key. */
function oneAtATime(state: State): boolean {
  const calls = callsOf(state);
  return !calls.some(({ run, strand }, index) =>
    calls.slice(0, index).some((other) => other.run !== run && other.strand === strand),
  );
}

/** No lease is over while a handler is within its time limit. */
function longEnough(state: State): boolean {
  return !callsOf(state).some(({ run }) => run.isOver);
}

/** Nothing is delivered that was rolled back, cancelled, or not taken by its handler. */
function noneThatWasNot({ events, db, seen, timers }: State): boolean {
  const isWrong = ({ event }: { event: number }) => events[event]!.fate !== 'committed';
  const isUndone = timers.some(
    (timer, index) =>
      timer.state === 'cancelled' && events[events.length - timers.length + index]!.fate === 'committed',
  );
  return (
    !isUndone && !db.deliveries.some(isWrong) && !seen.flat().some(({ times, returned }) => times > returned)
  );
}

/** No more attempts than allowed, and each of them a failure of its own, or its relay's death. */
function chargedForItsOwn({ db, seen }: State, { scope }: World): boolean {
  return db.deliveries.every(({ home, event, attempts, state }) => {
    const { threw, lapses } = seen[home]![event]!;
    return attempts <= scope.maxAttempts && attempts - (state === 'delivered' ? 1 : 0) <= threw + lapses;
  });
}

/** A position names one event forever. */
function namedOnce({ db, named, relays }: State): boolean {
  const isOther = (position: number, event: number) => named[position] !== -1 && named[position] !== event;
  return (
    !db.deliveries.some(({ position, event }) => isOther(position, event)) &&
    !relays.some(({ runs }) =>
      runs.some(({ positions, events, ends }) =>
        ends.some((end, place) => end === 'running' && isOther(positions[place]!, events[place]!)),
      ),
    )
  );
}

/** Nothing is handed over behind a dead letter that halts its lane, or its key. */
function halted(state: State, { scope }: World): boolean {
  if (!scope.haltsAtDeadLetter) return true;
  return !callsOf(state).some(({ run, place }) =>
    state.db.deliveries.some(
      ({ home, position, event, state: is }) =>
        is === 'dead' &&
        home === run.home &&
        position < run.positions[place]! &&
        (scope.keys[event] ?? 0) === run.keys[place],
    ),
  );
}

/** What is claimed once a backfill has begun comes after what it writes. */
function afterTheBackfilled(state: State): boolean {
  if (!state.db.backfill) return true;
  return !callsOf(state).some(
    ({ run, place }) => run.isOfBackfill && run.events[place]! > 0 && !state.seen[run.home]![0]!.hasEnded,
  );
}

function refused(state: State, { scope }: World): boolean {
  if (!scope.refusesReplays) return true;
  const ofOthers =
    (scope.faults['replay of another release'] ?? 0) - (state.left['replay of another release'] ?? 0);
  const replays = state.db.deliveries.reduce((sum, one) => sum + one.replays, 0);
  const isHanded = ({ run, place }: Call) =>
    state.db.deliveries.some((one) => one.position === run.positions[place] && one.replays > 0);
  return replays <= ofOthers && !callsOf(state).some(isHanded);
}

function readable({ relays }: State, { scope }: World): boolean {
  if (!scope.hasOldRelease) return true;
  return !relays[0]!.runs.some(({ events, ends }) =>
    ends.some((end, place) => end === 'running' && events[place] === scope.fannedOut - 1),
  );
}

/** Whether all that was promised has come about: every committed event has reached its end with each subscriber. */
export function isAtRest(state: State, { scope }: World): boolean {
  const { db, producers, events, relays, timers } = state;
  if (db.markers.length > 0 || db.isPaused || db.backfill !== null) return false;
  if (producers.some(({ phase, left }) => phase !== 'idle' || left > 0)) return false;
  if (timers.some((timer) => timer.state === 'none' || timer.state === 'set' || timer.heldBy !== 'nobody'))
    return false;
  if (relays.some(({ phase, isStopped }) => phase !== 'idle' || isStopped)) return false;
  const isOfTimer = (event: number) => event >= events.length - scope.timers;
  return events.every(({ fate }, event) => {
    if (fate !== 'committed' || isOfTimer(event)) return true;
    const own = db.deliveries.filter((one) => one.event === event);
    if (own.length < scope.subscribers) return scope.joinsLate && event === 0;
    return !scope.handsOver || own.every(({ state: is }) => is !== 'pending' && is !== 'failing');
  });
}

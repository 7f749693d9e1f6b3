import { holdersOf } from './producers.ts';
import type { State } from './state.ts';
import type { Step, StepName } from './steps.ts';
import { tick } from './world.ts';
import type { World } from './world.ts';

/** What a turn may do next until its events have their places: `postbud_place_3`, statement by statement. */
export function* placingSteps(state: State, who: number, { mistake }: World): Generator<Step> {
  const { phase } = state.relays[who]!;
  if (phase === 'idle' || phase === 'finish') return;
  const mayLock = state.placer === -1 || mistake === 'place-without-lock';
  if (phase !== 'number' || mayLock) yield { name: phase, who, what: 0 };
}

/** Whether there is anything to place. @param isWhole also behind the bound that its process knows. */
export function hasMarkers({ db, relays, events, life }: State, who: number, isWhole: boolean): boolean {
  const { memory } = relays[who]!;
  const bound = isWhole || memory.life !== life ? 0 : memory.bound;
  return db.markers.some(({ event }) => events[event]!.created >= bound);
}

/** Begins to place. @param isWhole also behind the bound. */
export function beginToPlace(state: State, who: number, isWhole: boolean, { mistake }: World): void {
  const relay = state.relays[who]!;
  const isKnown = relay.memory.life === state.life || mistake === 'memory-kept-over-a-crash';
  relay.bound = isWhole || !isKnown ? 0 : relay.memory.bound;
  relay.phase = 'number';
}

export function takePlacingStep(state: State, name: StepName, who: number, world: World): void {
  const relay = state.relays[who]!;
  const { mistake } = world;
  switch (name) {
    case 'number':
      state.placer = who;
      relay.numberNow = state.db.lastNumber;
      relay.phase = mistake === 'fence-clock-after-locks' ? 'try' : 'clock';
      break;
    case 'clock':
      relay.certain = tick(state);
      if (relay.certain < relay.bound) relay.bound = 0;
      relay.phase = mistake === 'fence-clock-after-locks' ? 'late' : 'try';
      if (mistake === 'fence-clock-after-locks') relay.numberNow = state.db.lastNumber;
      break;
    case 'try':
      if (holdersOf(state, world).length > 0) relay.phase = 'holders';
      else relay.phase = mistake === 'fence-clock-after-locks' ? 'clock' : 'late';
      break;
    case 'holders':
      // Where the clock is read before, as it should be.
      if (mistake === 'fence-clock-after-locks') relay.certain = tick(state);
      if (mistake !== 'no-fence') relay.certain = Math.min(relay.certain, ...holdersOf(state, world));
      relay.phase = 'late';
      break;
    case 'late':
      if (mistake !== 'late-passed') relay.certain = Math.min(relay.certain, ...lateOnes(state, who));
      relay.phase = mistake === 'place-without-lock' ? 'picks' : 'place';
      break;
    case 'picks':
      pick(state, who);
      relay.phase = 'place';
      break;
    default:
      place(state, who, world);
  }
}

/** The times of what was committed since the last number was read: what comes behind one of them waits with it. */
function lateOnes({ db, events, relays }: State, who: number): number[] {
  const { bound, certain, numberNow } = relays[who]!;
  return db.markers
    .filter(({ event, number }) => number > numberNow && events[event]!.created >= bound)
    .map(({ event }) => events[event]!.created)
    .filter((created) => created < certain);
}

/** Takes the markers whose places are certain, and draws positions. */
function pick({ db, events, relays }: State, who: number): void {
  const relay = relays[who]!;
  const createdOf = (event: number) => events[event]!.created;
  const taken = new Set(relays.flatMap(({ placed }) => placed.map(({ event }) => event)));
  relay.placed = db.markers
    .filter(({ event, number }) => {
      const created = createdOf(event);
      return (
        number <= relay.numberNow && created >= relay.bound && created < relay.certain && !taken.has(event)
      );
    })
    .map(({ event }) => event)
    .toSorted((one, other) => createdOf(one) - createdOf(other))
    .map((event, index) => ({ event, position: db.log.length + 1 + index }));
}

function place(state: State, who: number, { mistake }: World): void {
  const relay = state.relays[who]!;
  if (mistake !== 'place-without-lock') pick(state, who);
  // The log takes no position twice: the turn fails.
  const isTaken = relay.placed.some(
    ({ position }) =>
      position <= state.db.log.length ||
      state.relays.some(
        (other) =>
          other !== relay &&
          other.phase === 'finish' &&
          other.placed.some((one) => one.position === position),
      ),
  );
  if (isTaken) return abandon(state, who);
  relay.nextBound =
    mistake === 'bound-passes-open-emitters' ? tick(state) : Math.max(relay.bound, relay.certain);
  Object.assign(relay, { phase: 'finish', bound: 0, numberNow: 0, certain: 0 });
}

/** What is left of a turn's placing when the turn ends, however it does. */
export function abandon(state: State, who: number): void {
  const idle = { phase: 'idle', bound: 0, numberNow: 0, certain: 0, placed: [], nextBound: 0 } as const;
  Object.assign(state.relays[who]!, idle);
  if (state.placer === who) state.placer = -1;
}

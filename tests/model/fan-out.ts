import { holdersOf } from './producers.ts';
import { copyTables } from './state.ts';
import type { Memory, Pin, Relay, State, Tables } from './state.ts';
import type { Step } from './steps.ts';
import { keepDisk, tick } from './world.ts';
import type { World } from './world.ts';

/** How many positions are reserved at once; the bus reserves a hundred thousand. */
const RESERVED = 2;

/** What a turn may do next until its events have their places: `postbud_fan_out_3`, statement by statement. One topic. */
export function* fanOutSteps(state: State, who: number, world: World): Generator<Step> {
  const { phase, memory } = state.relays[who]!;
  const step = (name: Step['name']) => ({ name, who, what: 0 });
  switch (phase) {
    case 'clock':
      yield step('clock');
      break;
    case 'locks':
      yield step('locks');
      // Only where it waits for nobody, and has read all locks not long ago.
      if (memory.pin === null && memory.life === state.life && holdersOf(state, world).length === 0)
        yield step('try');
      break;
    case 'clock again':
      yield step('clock again');
      break;
    case 'picks':
      yield step('picks');
      break;
    case 'place':
      yield step('place');
      if (memory.pin !== null) yield step('place old');
      break;
    case 'idle':
    case 'waits':
    case 'finish':
  }
}

/** Whether a turn would find something to fan out, or somebody to wait for no more. */
export function hasMarkers({ db, life }: State, { memory }: Relay): boolean {
  const from = memory.life === life ? memory.from : 0;
  return memory.pin !== null || db.markers.some(({ number }) => number > from);
}

/** Begins a turn. It waits for another one's fan-out only with empty hands. */
export function look(state: State, who: number, world: World): void {
  const relay = state.relays[who]!;
  const { mistake } = world;
  if (relay.memory.life !== state.life && mistake !== 'memory-kept-over-a-crash') {
    // What is pinned stays so: its transactions may be prepared ones.
    relay.memory = { life: state.life, from: 0, reserved: 0, pin: relay.memory.pin };
  }
  relay.memory.life = state.life;
  for (const run of relay.runs) run.isGathered = run.isDone;
  if (mistake === 'repeatable-read') relay.snapshot = copyTables(state.db);
  if (!hasMarkers(state, relay)) relay.phase = 'finish';
  else if (state.fanOutLock === -1 || mistake === 'fan-out-without-lock') {
    state.fanOutLock = who;
    relay.phase = 'clock';
  } else {
    relay.phase = relay.runs.some(({ isGathered }) => isGathered) ? 'finish' : 'waits';
    if (relay.phase === 'waits' && mistake === 'old-snapshot-after-a-wait')
      relay.snapshot = copyTables(state.db);
  }
}

export function takeFanOutStep(state: State, { name, who }: Step, world: World): void {
  const relay = state.relays[who]!;
  const { mistake } = world;
  switch (name) {
    case 'clock':
      relay.numberNow = state.db.lastNumber;
      relay.at = tick(state);
      relay.phase = 'locks';
      break;
    case 'locks':
    case 'try':
      relay.holders = name === 'try' ? null : holdersOf(state, world);
      relay.phase =
        mistake === 'fence-clock-after-locks'
          ? 'clock again'
          : mistake === 'fan-out-without-lock'
            ? 'picks'
            : 'place';
      break;
    case 'clock again':
      relay.numberNow = state.db.lastNumber;
      relay.at = tick(state);
      relay.phase = 'place';
      break;
    case 'picks':
      // The mistake's: as job queues do.
      relay.placed = choose(state, who, world, false).map((event) => ({ event, position: 0 }));
      relay.phase = 'place';
      break;
    default:
      place(state, who, world, name === 'place old');
  }
}

/** By which a statement decides: what is committed when it begins. */
function seenBy(state: State, relay: Relay): Tables {
  return relay.snapshot ?? state.db;
}

/** How far it may fan out, and from which number on it reads; and what to wait for next. */
function boundsOf(state: State, relay: Relay, world: World, isLongAgo: boolean) {
  const { memory, at, holders, numberNow } = relay;
  if (holders === null)
    return { from: memory.from, until: at, upto: numberNow, pin: null, isPassed: false, isQuiet: true };
  const { pin } = memory;
  const names = holders.map(({ name }) => name);
  const gone = pin?.names.filter((name) => name > 0 && !names.includes(name)) ?? [];
  const remaining = pin
    ? names.filter(
        (name) =>
          pin.names.includes(name) ||
          (name < 0 && gone.length > 0 && world.mistake !== 'prepared-by-its-virtual-id'),
      )
    : [];
  const isPassed = pin !== null && remaining.length === 0;
  const isLeftAlone = remaining.length > 0 && isLongAgo;
  const from = pin && !isLeftAlone ? Math.min(memory.from, pin.from) : memory.from;
  const passedAt = isPassed ? pin.at : 0;
  const allKnown = holders.every(({ began }) => began > 0);
  const began = allKnown && !isLeftAlone ? Math.min(at, ...holders.map((holder) => holder.began)) : 0;
  let until = holders.length > 0 ? Math.max(passedAt, began) : at;
  const upto = holders.length > 0 && passedAt > began ? pin!.upto : numberNow;
  if (world.mistake === 'no-fence') until = Infinity;
  const mayPass = world.mistake === 'bound-passes-open-emitters';
  const next: Pin | null =
    remaining.length > 0
      ? { ...pin!, names: remaining }
      : names.length > 0
        ? { at, from: mayPass ? numberNow : (pin?.from ?? memory.from), upto: numberNow, names }
        : null;
  return { from, until, upto, pin: next, isPassed, isQuiet: false };
}

/** The events to fan out now, oldest first. */
function choose(state: State, who: number, world: World, isLongAgo: boolean): number[] {
  const relay = state.relays[who]!;
  const { from, until, upto, isQuiet } = boundsOf(state, relay, world, isLongAgo);
  const createdOf = (event: number) => state.events[event]!.created;
  const seen = seenBy(state, relay).markers;
  const waiting = seen.filter(({ number }) => number > from);
  const least = Math.min(...waiting.map(({ event }) => createdOf(event)));
  // Those that came since the locks were read, which only a clock that has stepped back makes older.
  const late = seen.filter(({ number }) => number > upto);
  // The mistake's: no bound at all, which whatever comes late is less than.
  const isLifted = world.mistake === 'late-lifts-the-bound' && until === 0 && late.length > 0;
  const before = Math.min(isLifted ? Infinity : until, ...late.map(({ event }) => createdOf(event)));
  const taken = new Set(state.relays.flatMap(({ placed }) => placed.map(({ event }) => event)));
  const isThere = new Set(state.db.markers.map(({ event }) => event));
  return (
    (isQuiet ? waiting : seen.filter(({ event }) => createdOf(event) >= least))
      .map(({ event }) => event)
      // Those that another one has taken meanwhile are gone when it comes to delete them.
      .filter((event) => createdOf(event) < before && isThere.has(event) && !taken.has(event))
      .toSorted((one, other) => createdOf(one) - createdOf(other))
  );
}

function place(state: State, who: number, world: World, isLongAgo: boolean): void {
  const relay = state.relays[who]!;
  const { memory, numberNow } = relay;
  const bounds = boundsOf(state, relay, world, isLongAgo);
  const events =
    world.mistake === 'fan-out-without-lock'
      ? relay.placed.map(({ event }) => event)
      : choose(state, who, world, isLongAgo);
  reserve(state, relay, events.length, world);
  if (events.length > 0) keepDisk(state);
  relay.placed = events.map((event) => ({ event, position: (state.db.lastPosition += 1) }));
  relay.next = bounds.isQuiet ? memory : remembered(state, relay, bounds, events, numberNow);
  Object.assign(relay, { phase: 'finish', holders: null, numberNow: 0, at: 0, snapshot: null });
}

/** How far all is fanned out, but for what is pinned; and the same for the pin. */
function remembered(
  state: State,
  relay: Relay,
  { from, pin, isPassed }: ReturnType<typeof boundsOf>,
  placed: readonly number[],
  numberNow: number,
): Memory {
  const { memory } = relay;
  const left = seenBy(state, relay)
    .markers.filter(({ number, event }) => number > from && !placed.includes(event))
    .map(({ number }) => number);
  const first = left.length > 0 ? Math.min(...left) : null;
  const upto = pin !== null || first === null ? numberNow : first - 1;
  const passed = memory.pin;
  return {
    ...memory,
    from: Math.max(from, Math.min(numberNow, upto)),
    pin:
      pin &&
      (isPassed && passed
        ? { ...pin, from: Math.min(...(first === null ? [] : [first - 1]), passed.upto) }
        : pin),
  };
}

/** Reserves positions, so that none is drawn twice: `postbud_reserve_positions_1`. It commits with the turn. */
function reserve(state: State, relay: Relay, count: number, { mistake }: World): void {
  const { db } = state;
  if (mistake === 'positions-not-reserved' || db.lastPosition + count <= relay.memory.reserved) return;
  keepDisk(state);
  const isOfAnotherLife = db.reserved.life !== state.life;
  if (isOfAnotherLife && db.reserved.until > db.lastPosition) db.lastPosition = db.reserved.until;
  relay.reserving =
    isOfAnotherLife || db.lastPosition + count > db.reserved.until
      ? { until: db.lastPosition + count + RESERVED, life: state.life }
      : db.reserved;
}

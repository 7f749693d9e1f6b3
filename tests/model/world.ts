import type { MistakeName } from './mistakes.ts';
import { copyTables, instantsOf } from './state.ts';
import type { Exception, Relay, State } from './state.ts';

/** The bounds within which all interleavings are searched. */
export interface Scope {
  readonly name: string;
  /** In words, what is in it. */
  readonly holds: string;
  /** How many transactions each has, one after the other, of one event each. */
  readonly producers: readonly number[];
  /** How many events have their places already when it begins; they come before those of producers. */
  readonly placed: number;
  readonly relays: number;
  /** Whether relays claim lanes and hand events over. Without it a scope is about the order alone. */
  readonly handsOver: boolean;
  readonly isTransactional: boolean;
  /** The ordering key of each event, 1 or 2, in a lane that both share; empty: no event has one. */
  readonly keys: readonly number[];
  readonly maxAttempts: number;
  /** How many deliveries a claim takes. */
  readonly maxDeliveries: number;
  readonly haltsAtDeadLetter: boolean;
  /** Whether the subscriber joined after the first event, which it gets by a backfill. */
  readonly joinsLate: boolean;
  /** How many of each fault, and of each action of operators, there can be; none of those that are not named. */
  readonly faults: Readonly<Record<string, number>>;
}

/** A scope, and the mistake that is built into its bus. */
export interface World {
  readonly scope: Scope;
  readonly mistake: MistakeName | null;
}

export function initialState({ scope }: World): State {
  const { producers, placed, relays, joinsLate } = scope;
  const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);
  const list = <Item>(length: number, item: (index: number) => Item) =>
    Array.from({ length }, (_, index) => item(index));
  const events = placed + sumOf(producers);
  const head = joinsLate ? 1 : 0;
  return {
    now: placed + 1,
    era: 0,
    life: 1,
    db: {
      lastNumber: 0,
      markers: [],
      log: list(placed, (event) => event),
      lane: {
        head,
        number: 0,
        token: 0,
        isLeased: false,
        isOver: false,
        first: 0,
        claimedTo: 0,
        carefulTo: 0,
      },
      journal: [],
      exceptions: [],
      backfill: 'none',
    },
    disk: null,
    placer: -1,
    events: list(events, (event) => ({
      created: event < placed ? event + 1 : 0,
      era: 0,
      fate: event < placed ? ('committed' as const) : ('none' as const),
    })),
    producers: producers.map((left, who) => ({
      phase: 'idle' as const,
      began: 0,
      event: placed + sumOf(producers.slice(0, who)),
      number: 0,
      left,
    })),
    relays: list(relays, () => newRelay()),
    seen: list(events, () => ({
      hasBegun: false,
      hasEnded: false,
      hasReturned: false,
      blamed: 0,
      effects: 0,
    })),
    broken: null,
    left: { ...scope.faults },
  };
}

/** A process that has just begun. */
export function newRelay(): Relay {
  return {
    phase: 'idle',
    isStopped: false,
    memory: { life: 0, bound: 0 },
    bound: 0,
    numberNow: 0,
    certain: 0,
    placed: [],
    nextBound: 0,
    isRepeating: false,
    lost: 0,
    run: null,
  };
}

/** A delivery that gets a row of its own. */
export function newException(position: number, event: number): Exception {
  return {
    position,
    event,
    state: 'pending',
    isOpen: true,
    isHeld: false,
    waits: false,
    due: 'no',
    attempts: 0,
    replays: 0,
  };
}

/** The key of an event; 0 in a stream without keys. */
export function keyOfEvent(event: number, { scope }: World): number {
  return scope.keys[event] ?? 0;
}

/** Whether one more of a kind can happen. */
export function mayHappen(state: State, kind: string): boolean {
  return (state.left[kind] ?? 0) > 0;
}

export function spend(state: State, kind: string): void {
  state.left[kind] = (state.left[kind] ?? 0) - 1;
}

/** Reads the clock: each reading is later than the one before it, and no later than what it has not come to yet. */
export function tick(state: State): number {
  let next = Infinity;
  for (const at of instantsOf(state)) if (at > state.now && at < next) next = at;
  state.now = next === Infinity ? state.now + 1 : (state.now + next) / 2;
  return state.now;
}

/** Keeps what the disk has before something is changed that does not wait for it. A scope without crashes has no use for it. */
export function keepDisk(state: State): void {
  if (mayHappen(state, 'crash')) state.disk ??= copyTables(state.db);
}

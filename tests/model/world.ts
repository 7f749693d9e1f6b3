import type { MistakeName } from './mistakes.ts';
import { copyTables, instantsOf } from './state.ts';
import type { State } from './state.ts';

/** The bounds within which all interleavings are searched. */
export interface Scope {
  readonly name: string;
  /** In words, what is in it. */
  readonly holds: string;
  /** How many transactions each has, one after the other, of one event each. */
  readonly producers: readonly number[];
  /** How many events are fanned out already when it begins; they come before those of producers. */
  readonly fannedOut: number;
  readonly relays: number;
  readonly subscribers: number;
  /** Whether relays claim lanes and hand events over. Without it a scope is about the order alone. */
  readonly handsOver: boolean;
  readonly handler: 'plain' | 'transactional' | 'batch';
  /** The ordering key of each event, 1 or 2, in a lane that both share; empty: no event has one. */
  readonly keys: readonly number[];
  readonly maxAttempts: number;
  /** How many deliveries of a lane a claim takes. */
  readonly maxDeliveries: number;
  readonly maxLanes: number;
  readonly haltsAtDeadLetter: boolean;
  readonly refusesReplays: boolean;
  /** Whether the first relay is of an older release, which lists one subscriber less and cannot read the last event. */
  readonly hasOldRelease: boolean;
  readonly timers: number;
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
  const { producers, fannedOut, relays, subscribers, timers, joinsLate } = scope;
  const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);
  const events = fannedOut + sumOf(producers) + timers;
  const list = <Item>(length: number, item: (index: number) => Item) =>
    Array.from({ length }, (_, index) => item(index));
  return {
    now: fannedOut + 1,
    era: 0,
    life: 1,
    db: {
      markers: [],
      deliveries: list(subscribers, (home) =>
        list(joinsLate ? fannedOut - 1 : fannedOut, (index) => (joinsLate ? index + 1 : index)).map(
          (event) => ({
            home,
            position: event + 1,
            event,
            state: 'pending' as const,
            attempts: 0,
            replays: 0,
            waits: false,
            backfilled: false,
          }),
        ),
      ).flat(),
      lanes: list(subscribers, (home) => ({
        home,
        key: 0,
        head: 0,
        tail: fannedOut,
        carefulTo: 0,
        token: 0,
        due: fannedOut > 0 ? ('now' as const) : ('no' as const),
      })),
      halts: [],
      lastNumber: 0,
      lastPosition: fannedOut,
      reserved: { until: fannedOut, life: 1 },
      isPaused: false,
      backfill: null,
    },
    disk: null,
    fanOutLock: -1,
    events: list(events, (event) => ({
      created: event < fannedOut ? event + 1 : 0,
      era: 0,
      fate: event < fannedOut ? ('committed' as const) : ('none' as const),
    })),
    producers: producers.map((left, who) => ({
      phase: 'idle' as const,
      began: 0,
      event: fannedOut + sumOf(producers.slice(0, who)),
      number: 0,
      left,
    })),
    relays: list(relays, () => newRelay()),
    timers: list(timers, () => ({ state: 'none' as const, isDue: false, heldBy: 'nobody' as const })),
    seen: list(subscribers, () =>
      list(events, () => ({
        hasBegun: false,
        hasEnded: false,
        returned: 0,
        threw: 0,
        lapses: 0,
        effects: 0,
        times: 0,
      })),
    ),
    named: list(events + 6, () => -1),
    usurped: false,
    left: { ...scope.faults },
  };
}

/** A process that has just begun. */
export function newRelay(): State['relays'][number] {
  return {
    phase: 'idle',
    isStopped: false,
    memory: { life: 0, from: 0, reserved: 0, pin: null },
    snapshot: null,
    at: 0,
    numberNow: 0,
    holders: null,
    placed: [],
    next: null,
    reserving: null,
    runs: [],
  };
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

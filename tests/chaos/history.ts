import type { Release } from './releases.ts';

/** What happened in one run, as the checker reads it. Instants are milliseconds of the run's own (moved) clock. */
export interface History {
  readonly subscribers: readonly SubscriberLimits[];
  readonly releases: Readonly<Record<Release, ReleaseCatalog>>;
  readonly emits: readonly Emit[];
  readonly cancels: readonly Cancel[];
  /** In the order in which it was written, by all processes. */
  readonly log: readonly LogEntry[];
  /** As they stand at the end. */
  readonly events: readonly StoredEvent[];
  readonly markers: number;
  /** Every row of the lanes' journals and every version of every delivery, in the order of the changes. */
  readonly lanes: readonly LaneVersion[];
  readonly deliveries: readonly DeliveryVersion[];
  /** Every version of every timer, in the order of the changes. */
  readonly timers: readonly TimerVersion[];
  /** Every version of every outage, in the order of the changes. */
  readonly outages: readonly OutageVersion[];
  readonly backfills: readonly StoredBackfill[];
  /** What transactional handlers wrote with their `tx`, as far as it was committed. */
  readonly effects: readonly { readonly eventId: string; readonly subscriber: string }[];
  /** Of `contradictions()` in tests/support/bus.ts. */
  readonly contradictions: readonly string[];
}

export interface SubscriberLimits {
  readonly name: string;
  readonly transactional: boolean;
  /** Whether its handlers take batches. */
  readonly batch: boolean;
  readonly timeoutMs: number;
  readonly maxAttempts: number;
  readonly afterDeadLetter?: 'halt';
  readonly outage?: 'wait';
  /** Whether its handlers refuse replays. */
  readonly onReplay?: 'refuse';
  /** Over all relays together. */
  readonly rate?: string;
  readonly concurrency?: number;
}

/** What a release knows of each topic. */
type ReleaseCatalog = Readonly<
  Record<string, { readonly subscribers: readonly string[]; readonly version: number }>
>;

export interface Emit {
  /** Of the producer. */
  readonly release: Release;
  readonly id: string;
  readonly tag: string;
  readonly fate: Fate;
  /** When the answer to the commit was there. */
  readonly committedAt?: number;
}

/** `unknown`: the answer to the commit was lost. */
type Fate = 'committed' | 'rolled back' | 'unknown';

/** A producer's cancellation of a timer. */
export interface Cancel {
  readonly topic: string;
  readonly timerKey: string;
  /** What it was answered. */
  readonly wasThere: boolean;
  readonly fate: Fate;
}

export type LogEntry = Start | End | Disturbance | RelayError;

interface Stamped {
  /** The run's clock, and the machine's. */
  readonly t: number;
  readonly real: number;
  /** Process of a relay; empty where it was none. */
  readonly relay: string;
}

/** A handler was called. */
export interface Start extends Stamped {
  readonly k: 'start';
  /** Of the start among all starts in this process; its end has the same. */
  readonly n: number;
  readonly tag: string;
  readonly eventId: string;
  readonly subscriber: string;
  /** Of the relay. */
  readonly release: Release;
  /** Of the payload. */
  readonly version: number;
  readonly attempt: number;
  readonly replayed: boolean;
  /** What the schedule has it do. */
  readonly plan: string;
}

export type HandlerEnd = 'ok' | 'threw' | 'permanent' | 'waits' | 'timed out' | 'crashes';

export interface End extends Stamped {
  readonly k: 'end';
  readonly n: number;
  readonly end: HandlerEnd;
  /** How long it asked to wait, if it did. */
  readonly ms?: number;
}

interface Disturbance extends Stamped {
  readonly k: 'fault';
  readonly fault: string;
  /** By how much the clock was moved. */
  readonly ms?: number;
}

/** An operator whose release knows whose handlers refuse replays. Another one puts their deliveries back as well. */
export const KNOWING = 'an operator';

/** The kind of what handlers throw. */
export const PLANNED = 'as_planned';

// Faults that are more than words.
export const KILLED = 'is killed';
export const STOPPED = 'is stopped';
export const WOKEN = 'goes on';
export const GONE = 'is gone, its process has ended';
/** It loses what did not wait for the disk. */
export const CRASHES = 'the database crashes';
export const BACK = 'the database is back';

interface RelayError extends Stamped {
  readonly k: 'error';
  readonly code: string;
  readonly message: string;
}

/** From best to worst. */
export const STATES = ['delivered', 'pending', 'failing', 'dead_lettered'] as const;

type State = (typeof STATES)[number];

export interface StoredEvent {
  readonly id: string;
  readonly topic: string;
  /** ISO 8601 with microseconds, UTC: as text later ones are greater. */
  readonly createdAt: string;
  readonly seq: number;
  readonly state: State;
  /** When the timer was due that it was; null for one that happened when it was emitted. */
  readonly dueAt: number | null;
}

export interface StoredBackfill {
  readonly topic: string;
  readonly subscriber: string;
  readonly requestedAt: number;
  /** Null: relays never let go of the lanes. */
  readonly begunAt: number | null;
  readonly endedAt: number | null;
}

interface Version {
  /** When, by the run's clock: a little before the commit. */
  readonly at: number;
  /** Which process changed it: a relay, or `operator`. */
  readonly by: string;
}

/** A row of a lane's journal. */
export interface LaneVersion extends Version {
  readonly id: string;
  readonly topic: string;
  readonly subscriber: string;
  readonly head: number;
  readonly carefulTo: number | null;
  /** While somebody holds it: until when. */
  readonly dueAt: number | null;
  /** Of who holds it; null while nobody does. A relay that goes on with a lane of its own keeps the first. */
  readonly token: string | null;
}

export interface TimerVersion extends Version {
  /** Of its event. Another one when it is moved. */
  readonly id: string;
  readonly topic: string;
  readonly timerKey: string | null;
  readonly dueAt: number;
  readonly isGone: boolean;
}

export interface OutageVersion extends Version {
  readonly subscriber: string;
  readonly openedAt: number;
  readonly probedAt: number | null;
  readonly isGone: boolean;
}

export interface DeliveryVersion extends Version {
  /** The transaction that wrote it. */
  readonly transaction: string;
  readonly laneId: string;
  /** The event's ordering key, in a stream with keys. */
  readonly laneKey: string | null;
  readonly position: number;
  readonly eventId: string;
  readonly state: State;
  readonly attempts: number;
  readonly replays: number;
  readonly attemptedAt: number | null;
  readonly durationMs: number | null;
  readonly nextAttemptAt: number | null;
  readonly dismissedAt: number | null;
  /** Whether a backfill wrote it. */
  readonly backfilled: boolean;
  readonly log: readonly {
    readonly attempt: number;
    /** ISO 8601. */
    readonly at?: string;
    readonly outcome: string;
    readonly kind?: string;
    /** Of an operator's action. */
    readonly by?: string;
  }[];
}

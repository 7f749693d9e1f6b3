/** The bus and its surroundings at one moment. Positions and numbers are drawn from 1. */
export interface State {
  /** The database's clock. Only the order of instants counts, so they are ranks: 1, 2, 3 and so on, over the whole state. */
  now: number;
  /** How often the clock has stepped back. */
  era: number;
  /** How often the server was started. */
  life: number;
  /** What is committed. */
  db: Tables;
  /** What a crash leaves if nothing more is flushed; null: all of it. */
  disk: Tables | null;
  /** The relay that has the fan-out lock; -1: nobody. */
  fanOutLock: number;
  events: Event[];
  producers: Producer[];
  relays: Relay[];
  timers: Timer[];
  /** By subscriber and event: what promises need to know of the past. */
  seen: Seen[][];
  /** By position: the event that it was handed over as, or -1. */
  named: number[];
  /** A relay has changed a lane that it did not hold. */
  usurped: boolean;
  /** How many more of each fault, and of each action of an operator, there can be. */
  left: Record<string, number>;
}

/** The tables of the bus, as far as the model has them. A sequence is among them: it is lost with the disk, not by a rollback. */
export interface Tables {
  markers: { event: number; number: number }[];
  deliveries: Delivery[];
  lanes: Lane[];
  halts: { home: number; position: number }[];
  lastNumber: number;
  lastPosition: number;
  reserved: { until: number; life: number };
  isPaused: boolean;
  /** One of the first event for a subscriber that joined late; null: it has not begun, or is over. */
  backfill: { front: number; isBegun: boolean } | null;
}

export interface Delivery {
  home: number;
  position: number;
  event: number;
  state: 'pending' | 'failing' | 'delivered' | 'dead' | 'dismissed';
  attempts: number;
  replays: number;
  /** Whether its next attempt is not due yet. */
  waits: boolean;
  backfilled: boolean;
}

export interface Lane {
  /** The lane that its deliveries stand in; its own, unless it is the lane of a key in trouble. A subscriber's has its number. */
  home: number;
  /** 0: all keys. */
  key: number;
  head: number;
  tail: number;
  /** Up to here deliveries are claimed one by one. */
  carefulTo: number;
  /** The relay that holds it and one; 0: nobody. */
  token: number;
  due: 'no' | 'now' | 'later' | 'at its front';
}

interface Event {
  /** When it was recorded; 0: not yet. */
  created: number;
  /** In which the clock was read; one of its own where its order is not promised. */
  era: number;
  fate: 'none' | 'open' | 'committed' | 'gone';
}

export interface Producer {
  phase: 'idle' | 'begun' | 'locked' | 'stamped' | 'inserted' | 'prepared';
  began: number;
  /** Of its transaction. */
  event: number;
  /** Its marker's. */
  number: number;
  /** How many transactions it has left. */
  left: number;
}

interface Timer {
  state: 'none' | 'set' | 'released' | 'cancelled';
  isDue: boolean;
  /** The producer's transaction that is about to cancel it, or the relay's that is about to release it. */
  heldBy: 'nobody' | 'producer' | 'relay';
}

/** What a process has learned from its fan-outs; see `postbud_fan_out_3`. */
export interface Memory {
  life: number;
  from: number;
  reserved: number;
  pin: Pin | null;
}

export interface Pin {
  at: number;
  from: number;
  upto: number;
  /** The transactions to wait for; see `nameOf`. */
  names: number[];
}

export interface Relay {
  phase: 'idle' | 'waits' | 'clock' | 'locks' | 'clock again' | 'picks' | 'place' | 'finish';
  isStopped: boolean;
  memory: Memory;
  /** By which a turn decides that is not in READ COMMITTED, or that looked before it waited. */
  snapshot: Tables | null;
  at: number;
  numberNow: number;
  /** Who held the topic's lock; null: it took that lock for a moment, so nobody did. */
  holders: { name: number; began: number }[] | null;
  /** What the turn has fanned out, and not committed yet. */
  placed: { event: number; position: number }[];
  /** What its process will have learned, and what is reserved, once it commits. */
  next: Memory | null;
  reserving: Tables['reserved'] | null;
  runs: Run[];
}

/** A claimed lane in a relay's hands. */
export interface Run {
  home: number;
  key: number;
  head: number;
  newest: number;
  isWhole: boolean;
  positions: number[];
  events: number[];
  keys: number[];
  /** What became of each. */
  ends: ('' | 'running' | 'delivered' | 'committed' | 'failed' | 'dead' | 'early')[];
  /** Up to this place each has a transaction of its own. */
  aloneTo: number;
  carefulTo: number;
  isDone: boolean;
  /** Whether its outcomes are on their way in a turn. */
  isGathered: boolean;
  /** Whether its lease is over; and whether nobody is to blame: its relay was stopped, or a crash has taken back the claim. */
  isOver: boolean;
  isExcused: boolean;
  /** Whether it was claimed when relays had let go for a backfill. */
  isOfBackfill: boolean;
}

interface Seen {
  hasBegun: boolean;
  hasEnded: boolean;
  /** How often its handler returned, threw, and was charged with its relay's death. */
  returned: number;
  threw: number;
  lapses: number;
  /** What a transactional handler has written, as far as it is committed; and how often it was marked delivered. */
  effects: number;
  times: number;
}

/** Copies a state, for a step to change. */
export function copy(state: State): State {
  return {
    ...state,
    db: copyTables(state.db),
    events: state.events.map((one) => ({ ...one })),
    producers: state.producers.map((one) => ({ ...one })),
    relays: state.relays.map((one) => ({
      ...one,
      // The other lists are replaced, never changed.
      memory: { ...one.memory },
      runs: one.runs.map((run) => ({ ...run, ends: [...run.ends] })),
    })),
    timers: state.timers.map((one) => ({ ...one })),
    seen: state.seen.map((ofOne) => ofOne.map((one) => ({ ...one }))),
    named: [...state.named],
    left: { ...state.left },
  };
}

export function copyTables(tables: Tables): Tables {
  return {
    ...tables,
    markers: [...tables.markers],
    deliveries: tables.deliveries.map((one) => ({ ...one })),
    lanes: tables.lanes.map((one) => ({ ...one })),
    halts: [...tables.halts],
    backfill: tables.backfill && { ...tables.backfill },
  };
}

/** Writes plain data as a short text: states with the same text are the same. */
export function encode(value: unknown): string {
  if (typeof value === 'number') return String.fromCharCode(value + 48);
  if (typeof value === 'string') return SHORT.get(value) ?? `"${value}"`;
  if (typeof value === 'boolean') return value ? '+' : '-';
  if (value === null) return '.';
  let text = Array.isArray(value) ? '[' : '';
  for (const name in value as object) text += encode((value as Record<string, unknown>)[name]);
  return Array.isArray(value) ? `${text}]` : text;
}

/** One character for each word that states have. */
const WORDS =
  'pending|failing|delivered|dead|dismissed|no|now|later|at its front|none|open|committed|gone|idle|begun|locked|stamped|' +
  'inserted|prepared|waits|clock|locks|clock again|picks|place|finish||running|failed|early|set|released|cancelled|' +
  'nobody|producer|relay';

const SHORT = new Map(WORDS.split('|').map((word, index) => [word, String.fromCharCode(180 + index)]));

/** Renames instants by their ranks. 0 is none. */
export function rankInstants(state: State): void {
  const found = instantsOf(state);
  const sorted = [...new Set(found)].filter((at) => at > 0).toSorted((one, other) => one - other);
  if (sorted.every((at, index) => at === index + 1)) return;
  const rank = (at: number) => sorted.indexOf(at) + 1;
  const ranked = (pin: Pin | null) => pin && { ...pin, at: rank(pin.at) };
  state.now = rank(state.now);
  for (const event of state.events) event.created = rank(event.created);
  for (const producer of state.producers) producer.began = rank(producer.began);
  for (const relay of state.relays) {
    relay.at = rank(relay.at);
    relay.memory.pin = ranked(relay.memory.pin);
    if (relay.next) relay.next = { ...relay.next, pin: ranked(relay.next.pin) };
    relay.holders &&= relay.holders.map((holder) => ({ ...holder, began: rank(holder.began) }));
  }
}

/** All that was read from the clock and counts still, and the clock. */
export function instantsOf({ now, events, producers, relays }: State): number[] {
  const found = [now];
  for (const { created } of events) found.push(created);
  for (const { began } of producers) found.push(began);
  for (const { at, memory, next, holders } of relays) {
    found.push(at, memory.pin?.at ?? 0, next?.pin?.at ?? 0);
    for (const { began } of holders ?? []) found.push(began);
  }
  return found;
}

/**
 * Gives the key of a state: that of all states which differ only in which of two relays is which. Producers are
 * interchangeable too: the second begins only after the first.
 */
export function keyOf(state: State): string {
  if (state.relays.length !== 2) return encode(state);
  const [one, other] = state.relays.map((relay) => encode(relay));
  if (one! < other!) return encode(state);
  if (one! > other!) return encode(swapped(state));
  const [own, as] = [encode(state), encode(swapped(state))];
  return own < as ? own : as;
}

function swapped(state: State): State {
  const tables = (of: Tables) => ({
    ...of,
    lanes: of.lanes.map((lane) => (lane.token === 0 ? lane : { ...lane, token: 3 - lane.token })),
  });
  return {
    ...state,
    db: tables(state.db),
    disk: state.disk && tables(state.disk),
    fanOutLock: state.fanOutLock < 0 ? -1 : 1 - state.fanOutLock,
    relays: state.relays.toReversed(),
  };
}

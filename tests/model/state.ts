import type { Rule } from '../chaos/promises/promises.ts';

/**
 * The bus and its surroundings at one moment: one stream and one lane, of which all others are copies. A stream's positions begin
 * at 1, and so do the numbers of markers.
 */
export interface State {
  /** The database's clock. Only the order of instants counts, so they are ranks: 1, 2, 3 and so on, over the whole state. */
  now: number;
  /** How often the clock has stepped back. */
  era: number;
  /** How often the server was started. */
  life: number;
  /** The committed rows. */
  db: Tables;
  /** The rows that a crash leaves if nothing more is flushed; null: all of them. */
  disk: Tables | null;
  /** The relay that has the topic's placing lock; -1: nobody. */
  placer: number;
  events: Event[];
  producers: Producer[];
  relays: Relay[];
  /** By event: what promises need to know of the past. */
  seen: Seen[];
  /** A promise that the last step broke, where only the step shows it. */
  broken: Rule | null;
  /** How many more of each fault, and of each action of an operator, there can be. */
  left: Record<string, number>;
}

/** The tables of the bus, as far as the model has them. */
export interface Tables {
  /** The sequence of their numbers: no rollback takes it back. */
  lastNumber: number;
  markers: { event: number; number: number }[];
  /** The events in the order of their positions. */
  log: number[];
  /** The newest row of the lane's journal. */
  lane: Lane;
  /** Older rows of the journal, for which a relay asks whose settlement was not answered. */
  journal: Pick<Lane, 'token' | 'number'>[];
  exceptions: Exception[];
  /** A backfill of the first event, for a subscriber that joined after it. */
  backfill: 'none' | 'open' | 'begun';
}

export interface Lane {
  head: number;
  /** Counted from the first claim of a token on: token and number together name a row. */
  number: number;
  /** Of the claim; a settlement has that of its claim. 0: none. */
  token: number;
  isLeased: boolean;
  /** Whether the lease has run out. */
  isOver: boolean;
  /** The first delivery that its relay may have begun, and the last; 0: none. */
  first: number;
  claimedTo: number;
  /** Up to here deliveries are handed over one at a time. */
  carefulTo: number;
}

export interface Exception {
  position: number;
  event: number;
  state: 'pending' | 'failing' | 'delivered' | 'dead' | 'dismissed';
  isOpen: boolean;
  /** Whether a relay has it in hand while its lane goes on. */
  isHeld: boolean;
  /** Whether its next attempt is not due yet. */
  waits: boolean;
  /** When a relay has to look at its key; of the first open one of each key. */
  due: 'no' | 'later' | 'now';
  attempts: number;
  replays: number;
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

export interface Relay {
  phase: 'idle' | 'number' | 'clock' | 'try' | 'holders' | 'late' | 'picks' | 'place' | 'finish';
  isStopped: boolean;
  /** Up to when all is placed, as its process knows, and in which life of the server. */
  memory: { life: number; bound: number };
  /** Of the turn: the bound from which it reads, the last number, and until when the order is certain. */
  bound: number;
  numberNow: number;
  certain: number;
  /** What the turn has placed, and not committed yet; and the bound that its process learns with the commit. */
  placed: { event: number; position: number }[];
  nextBound: number;
  /** Whether its last turn failed, so that this one only settles. */
  isRepeating: boolean;
  /** The token of a turn whose answer was lost; 0: none. */
  lost: number;
  run: Run | null;
}

/** A claimed lane in a relay's hands: `lib/bus/relay/progress.ts`. */
export interface Run {
  token: number;
  /** Of the journal's newest row, as the relay knows it. */
  number: number;
  head: number;
  /** The exceptions, then the deliveries of the log, each in order. */
  hand: InHand[];
  /** Keys of which it hands over nothing more; and those whose deliveries in the log wait behind an exception. */
  blocked: number[];
  openKeys: number[];
  /** What it has recorded for exceptions, and no turn has taken. */
  exceptional: Exceptional[];
  /** Up to here deliveries are to be handed over one at a time. */
  carefulTo: number;
  /** Whether it begins no further handler: its time is up. */
  isCut: boolean;
  /** Whether its lease is over, as it knows. */
  isOver: boolean;
  /** Whether nobody is to blame for that: its relay was stopped, or a crash took back the claim. */
  isExcused: boolean;
  /** Whether it is unknown if its last commit was made. */
  isDoubtful: boolean;
  /** Whether it was claimed while a backfill was under way. */
  isOfBackfill: boolean;
  /** What a turn is to settle; and whether a turn failed that may have settled it. */
  outcome: Outcome | null;
  isRepeated: boolean;
}

export interface InHand {
  position: number;
  event: number;
  key: number;
  isException: boolean;
  state: 'open' | 'running' | 'delivered' | 'recorded' | 'left';
  /** Whether its row says that the relay has it in hand. */
  isHeld: boolean;
  /** Whether it may not begin: a dead letter that halts its key, or not due yet. */
  isBarred: boolean;
  attempts: number;
  replays: number;
}

export interface Exceptional {
  position: number;
  kind: 'delivered' | 'failed' | 'dead' | 'parked' | 'running';
  /** What it was claimed with; -1: it had no row. */
  replays: number;
}

export interface Outcome {
  number: number;
  head: number;
  exceptional: Exceptional[];
  isKept: boolean;
  first: number;
  carefulTo: number;
  isDoubtful: boolean;
}

interface Seen {
  hasBegun: boolean;
  hasEnded: boolean;
  hasReturned: boolean;
  /** How often its handler threw, or its relay died. */
  blamed: number;
  /** How often a transactional handler has taken effect. */
  effects: number;
}

/** Copies a state, for a step to change. */
export function copy(state: State): State {
  return {
    ...state,
    db: copyTables(state.db),
    disk: state.disk && { ...state.disk },
    events: state.events.map((one) => ({ ...one })),
    producers: state.producers.map((one) => ({ ...one })),
    // The other lists are replaced, never changed.
    relays: state.relays.map((one) => ({
      ...one,
      memory: { ...one.memory },
      run: one.run && { ...one.run, hand: one.run.hand.map((delivery) => ({ ...delivery })) },
    })),
    seen: state.seen.map((one) => ({ ...one })),
    left: { ...state.left },
  };
}

export function copyTables(tables: Tables): Tables {
  return {
    ...tables,
    markers: [...tables.markers],
    log: [...tables.log],
    lane: { ...tables.lane },
    journal: [...tables.journal],
    exceptions: tables.exceptions.map((one) => ({ ...one })),
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
  'pending|failing|delivered|dead|dismissed|no|now|later|none|open|committed|gone|idle|begun|locked|stamped|inserted|' +
  'prepared|number|clock|try|holders|late|picks|place|finish|running|recorded|left|failed|parked';

const SHORT = new Map(WORDS.split('|').map((word, index) => [word, String.fromCharCode(180 + index)]));

/** Renames instants and tokens by their ranks, and forgets what nobody asks for any more. 0 is none. */
export function normalise(state: State): void {
  const { events, producers, relays } = state;
  const awaited = new Set(
    relays.flatMap(({ run }) =>
      run?.outcome ? [`${run.token} ${run.outcome.number + (run.outcome.isDoubtful ? 2 : 1)}`] : [],
    ),
  );
  const tables = state.disk ? [state.db, state.disk] : [state.db];
  for (const of of tables)
    of.journal = of.journal.filter(({ token, number }) => awaited.has(`${token} ${number}`));
  const instants = ranksOf(instantsOf(state));
  if (instants) {
    state.now = instants.get(state.now)!;
    for (const event of events) event.created = instants.get(event.created)!;
    for (const producer of producers) producer.began = instants.get(producer.began)!;
    for (const relay of relays) {
      relay.memory.bound = instants.get(relay.memory.bound)!;
      relay.bound = instants.get(relay.bound)!;
      relay.certain = instants.get(relay.certain)!;
      relay.nextBound = instants.get(relay.nextBound)!;
    }
  }
  numberFromZero(tables, relays);
  const tokens = ranksOf(tokensOf(state));
  if (!tokens) return;
  const named = <Row extends { token: number }>(row: Row): Row => ({ ...row, token: tokens.get(row.token)! });
  for (const of of tables) {
    of.lane = named(of.lane);
    of.journal = of.journal.map(named);
  }
  for (const relay of relays) {
    relay.lost = tokens.get(relay.lost)!;
    if (relay.run) relay.run = named(relay.run);
  }
}

/** Counts the rows of each token from the first that anybody knows: a lane may go on any number of times. */
function numberFromZero(tables: readonly Tables[], relays: readonly Relay[]): void {
  const outcomes = relays.flatMap(({ run }) => (run?.outcome ? [{ token: run.token, of: run.outcome }] : []));
  const known = [
    ...tables.flatMap(({ lane, journal }) => [lane, ...journal]),
    ...relays.flatMap(({ run }) => run ?? []),
    ...outcomes.map(({ token, of: { number } }) => ({ token, number })),
  ];
  const first = new Map<number, number>();
  for (const { token, number } of known) first.set(token, Math.min(number, first.get(token) ?? number));
  if ([...first.values()].every((number) => number === 0)) return;
  const from = <Row extends { token: number; number: number }>(row: Row): Row => ({
    ...row,
    number: row.number - first.get(row.token)!,
  });
  for (const of of tables) {
    of.lane = from(of.lane);
    of.journal = of.journal.map(from);
  }
  for (const relay of relays) {
    if (!relay.run) continue;
    const { outcome, token } = relay.run;
    relay.run = {
      ...from(relay.run),
      outcome: outcome && { ...outcome, number: outcome.number - first.get(token)! },
    };
  }
}

/** @returns null where each has its rank as its name already. */
function ranksOf(found: readonly number[]): Map<number, number> | null {
  const sorted = [...new Set([0, ...found])].toSorted((one, other) => one - other);
  return sorted.every((one, rank) => one === rank) ? null : new Map(sorted.map((one, rank) => [one, rank]));
}

/** All that was read from the clock and counts still, and the clock. */
export function instantsOf({ now, events, producers, relays }: State): number[] {
  const found = [now];
  for (const { created } of events) found.push(created);
  for (const { began } of producers) found.push(began);
  for (const { memory, bound, certain, nextBound } of relays)
    found.push(memory.bound, bound, certain, nextBound);
  return found;
}

export function tokensOf({ db, disk, relays }: State): number[] {
  const found = relays.flatMap(({ lost, run }) => [lost, run?.token ?? 0]);
  for (const of of disk ? [db, disk] : [db])
    found.push(of.lane.token, ...of.journal.map(({ token }) => token));
  return found;
}

/**
 * Gives the key of a state: that of all states which differ only in which of two relays is which. Producers are
 * interchangeable too: the second begins only after the first.
 */
export function keyOf(state: State): string {
  if (state.relays.length !== 2) return encode(state);
  const [one, other] = state.relays.map((relay) => encode(relay));
  if (one! <= other!) return encode(state);
  const placer = state.placer < 0 ? -1 : 1 - state.placer;
  return encode({ ...state, placer, relays: state.relays.toReversed() });
}

/** Who takes a step, and what it does. Each is atomic: one statement, or several of which nobody can see the inside. */
export const STEPS = {
  begin: ['producer', 'begins a transaction'],
  lock: ['producer', "takes the topic's lock, shared"],
  stamp: ['producer', 'reads the clock for its event'],
  insert: ['producer', 'inserts the event and its marker, which has the next number'],
  commit: ['producer', 'commits, durably'],
  rollback: ['producer', 'rolls back'],
  prepare: ['producer', 'prepares its transaction, and is gone'],
  'commit prepared': ['producer', 'is found again: its transaction is committed'],
  look: ['relay', 'begins a turn, and gathers what its handlers did'],
  'look at all': ['relay', 'begins a turn that also looks behind its bound'],
  'look partially': ['relay', 'begins a turn while its handlers run, and gathers what they did so far'],
  number: ['relay', "takes the topic's placing lock, and reads the last number of a marker"],
  clock: ['relay', 'reads the clock: L'],
  try: ['relay', "tries the topic's lock: does anybody hold it?"],
  holders: [
    'relay',
    "reads when those began who hold the topic's lock: no later is certain than the first of them",
  ],
  late: ['relay', 'looks for markers with later numbers: no later is certain than the first of them'],
  picks: ['relay', 'takes the markers that no other has'],
  place: ['relay', 'gives places to what was recorded before that'],
  finish: ['relay', 'settles, claims what is due, and commits'],
  'answer lost': ['relay', 'settles, claims what is due and commits, and never gets the answer'],
  'turn fails': ['relay', 'has its turn fail, which it does not know'],
  'release lost': ['relay', 'releases the lane of a claim whose answer was lost'],
  hand: ['relay', 'calls the handler'],
  ok: ['relay', 'has the handler return'],
  throw: ['relay', 'has the handler throw'],
  'throw for good': ['relay', 'has the handler reject the event for good'],
  'commit lost': ['relay', 'commits what the handler did, and never gets the answer'],
  'commit fails': ['relay', "has the handler's commit fail, which it does not know"],
  cut: ['relay', 'has no more time for its lane'],
  kill: ['relay', 'is killed, and a new process takes its place'],
  stop: ['relay', 'is stopped'],
  wake: ['relay', 'goes on'],
  'lease ends': ['lease', 'of the lane runs out'],
  due: ['lane', 'has its retries fall due'],
  'time passes': ['clock', 'comes to the next instant that somebody has noted'],
  'step back': ['clock', 'steps back'],
  crash: ['database', 'crashes and starts again; all that was committed is there'],
  'crash and lose': ['database', 'crashes and starts again, without what was not flushed'],
  replay: ['operator', 'replays'],
  dismiss: ['operator', 'dismisses'],
  'open backfill': ['operator', 'opens a backfill of the first event'],
  'begin backfill': ['operator', 'sees that relays have let go, and begins the backfill'],
  'write backfill': ['operator', 'writes the delivery of the backfill, which ends it'],
} as const satisfies Record<string, readonly [who: string, does: string]>;

export type StepName = keyof typeof STEPS;

/** One step: of which producer or relay, and to what. */
export interface Step {
  readonly name: StepName;
  readonly who: number;
  readonly what: number;
}

const names = (...all: StepName[]): ReadonlySet<StepName> => new Set(all);

/** Steps that may come or not. All others happen sooner or later. */
export const FAULTS = names(
  ...([
    'rollback',
    'prepare',
    'throw',
    'throw for good',
    'commit lost',
    'commit fails',
    'cut',
    'kill',
  ] as const),
  ...([
    'look partially',
    'answer lost',
    'turn fails',
    'stop',
    'step back',
    'crash',
    'crash and lose',
  ] as const),
  ...(['replay', 'open backfill'] as const),
);

export const OF_PLACING = names('number', 'clock', 'try', 'holders', 'late', 'picks', 'place');

export const OF_HANDLERS = names(
  'hand',
  'ok',
  'throw',
  'throw for good',
  'commit lost',
  'commit fails',
  'cut',
);

export const OF_TURNS = names(
  ...([
    'look',
    'look at all',
    'look partially',
    'finish',
    'answer lost',
    'turn fails',
    'release lost',
  ] as const),
);

/** Who takes a step, what it does, and what it reads and writes. Each is atomic: one statement, or what nobody can see inside. */
export const STEPS = {
  begin: ['producer', 'begins a transaction', 'the clock', ''],
  lock: ['producer', "takes the topic's lock, shared", '', 'the lock'],
  stamp: ['producer', 'reads the clock for its event', 'the clock', ''],
  insert: [
    'producer',
    'inserts the event and its marker',
    'the number of the last marker',
    'event, marker (uncommitted)',
  ],
  commit: ['producer', 'commits, durably', '', 'event, marker; the disk; the lock goes'],
  rollback: ['producer', 'rolls back', '', 'the lock goes'],
  prepare: ['producer', 'prepares its transaction, and is gone', '', 'the disk'],
  'commit prepared': [
    'producer',
    'is found again: its transaction is committed',
    '',
    'event, marker; the lock goes',
  ],
  look: [
    'relay',
    'begins a turn, looks for markers, and asks for the fan-out lock',
    'markers',
    'the fan-out lock',
  ],
  clock: ['relay', 'reads the clock: L', 'the last number, the clock', ''],
  locks: ['relay', "reads who holds the topic's lock", 'locks', ''],
  try: ['relay', "takes the topic's lock alone for a moment: nobody holds it", 'locks', ''],
  'clock again': ['relay', 'reads the clock again', 'the last number, the clock', ''],
  picks: ['relay', 'takes the markers that no other has', 'markers', ''],
  place: [
    'relay',
    'fans out what was recorded before L and is certain, and draws positions',
    'markers',
    'positions',
  ],
  'place old': [
    'relay',
    'fans out, more than a second after it began to wait for an emitter',
    'markers',
    'positions',
  ],
  finish: [
    'relay',
    'settles what its handlers did, claims what is due, and commits',
    'lanes, deliveries',
    'lanes, deliveries',
  ],
  hand: ['relay', 'calls the handler', '', ''],
  ok: ['relay', 'has the handler return', '', 'the effects of a transactional one, committed'],
  throw: ['relay', 'has the handler throw', '', ''],
  'throw for good': ['relay', 'has the handler reject the event for good', '', ''],
  'take one': ['relay', 'has the handler take the first event of its batch and not the next', '', ''],
  'throw second': [
    'relay',
    'has the second handler of a shared transaction throw, which rolls back both',
    '',
    '',
  ],
  kill: ['relay', 'is killed, and a new process takes its place', '', ''],
  stop: ['relay', 'is stopped', '', ''],
  wake: ['relay', 'goes on', '', ''],
  'lease ends': ['relay', 'has its lease run out, and another relay makes the lane due', 'leases', 'lanes'],
  due: ['lane', "'s retry falls due", '', ''],
  'time passes': ['clock', 'comes to the next instant that somebody has noted', '', 'the clock'],
  'step back': ['clock', 'steps back', '', 'the clock'],
  crash: ['database', 'crashes and starts again; all that was committed is there', '', ''],
  'crash and lose': [
    'database',
    'crashes and starts again, without what was not flushed',
    'the disk',
    'all tables',
  ],
  restart: ['database', 'is restarted in order', '', ''],
  replay: ['operator', 'replays the delivery at', 'deliveries', 'deliveries, lanes'],
  'replay unknowing': [
    'operator',
    'of a release that knows of no refusal replays the delivery at',
    'deliveries',
    'deliveries, lanes',
  ],
  skip: ['operator', 'skips the delivery at', 'deliveries', 'deliveries, lanes'],
  dismiss: ['operator', 'dismisses the dead letter at', 'deliveries', 'deliveries, lanes'],
  pause: ['operator', 'pauses the subscriber', '', 'pauses'],
  resume: ['operator', 'resumes the subscriber', '', 'pauses'],
  'open backfill': [
    'operator',
    'opens a backfill for the event before the first',
    'lanes',
    'backfills, lanes',
  ],
  'begin backfill': [
    'operator',
    'sees that relays have let go, and begins the backfill',
    'lanes',
    'backfills, lanes',
  ],
  'write backfill': ['operator', 'writes the delivery of the backfill', 'lanes', 'deliveries, lanes'],
  'end backfill': ['operator', 'ends the backfill', 'backfills', 'backfills, lanes'],
  'set timer': ['timer', 'is set', '', 'timers'],
  'timer due': ['timer', 'falls due', 'the clock', ''],
  cancel: ['timer', "is deleted by a producer's transaction", 'timers', 'its row is locked'],
  'cancel commits': ['timer', 'is cancelled: the transaction commits', '', 'timers'],
  'cancel rolls back': ['timer', 'stays: the transaction that deleted it rolls back', '', 'timers'],
  take: ['timer', 'is deleted by a release, which finds it due', 'timers', 'its row is locked'],
  release: ['timer', 'becomes an event: the release commits', '', 'timers, event, marker'],
} as const satisfies Record<string, readonly [who: string, does: string, reads: string, writes: string]>;

export type StepName = keyof typeof STEPS;

/** One step: of which producer, relay, timer or event, and to what. */
export interface Step {
  readonly name: StepName;
  readonly who: number;
  readonly what: number;
}

/** Steps that may come or not. All others happen sooner or later. */
export const FAULTS: ReadonlySet<StepName> = new Set<StepName>([
  ...([
    'rollback',
    'prepare',
    'throw',
    'throw for good',
    'take one',
    'throw second',
    'kill',
    'stop',
  ] as const),
  ...([
    'step back',
    'crash',
    'crash and lose',
    'restart',
    'replay',
    'replay unknowing',
    'skip',
    'pause',
    'open backfill',
  ] as const),
  ...(['cancel', 'cancel commits'] as const),
]);

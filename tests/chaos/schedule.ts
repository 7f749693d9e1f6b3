import fc from 'fast-check';

import { DAY, HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { NO_PAUSES } from './clock.ts';
import type { SubscriberLimits } from './history.ts';
import type { Trap } from './proxy.ts';
import { JOINING, RELEASES } from './releases.ts';
import type { Release } from './releases.ts';

/** Time limits are short, so that a run meets them. */
const TIMEOUT_MS = 200;

/** Who is attached, in every relay. Between them they have every number of attempts that the bus allows but 4. */
export const SUBSCRIBERS: readonly SubscriberLimits[] = [
  {
    name: 'bookings',
    transactional: false,
    batch: false,
    timeoutMs: TIMEOUT_MS,
    maxAttempts: 5,
    afterDeadLetter: 'halt',
  },
  { name: 'ledger', transactional: true, batch: false, timeoutMs: TIMEOUT_MS, maxAttempts: 5 },
  {
    name: 'notifications',
    transactional: true,
    batch: false,
    timeoutMs: TIMEOUT_MS,
    maxAttempts: 2,
    onReplay: 'refuse',
  },
  { name: 'accounting', transactional: false, batch: true, timeoutMs: TIMEOUT_MS, maxAttempts: 3 },
  {
    name: 'audit',
    transactional: false,
    batch: false,
    timeoutMs: TIMEOUT_MS,
    maxAttempts: 6,
    outage: 'wait',
  },
  { name: 'calendar', transactional: true, batch: true, timeoutMs: TIMEOUT_MS, maxAttempts: 1 },
];

/** The second has an ordering key of its own in the catalog; the others get one from the producer now and then. */
export const TOPICS = {
  'payment.captured': ['bookings', 'ledger', 'notifications', 'accounting'],
  'booking.rescheduled': ['notifications', 'calendar', 'audit'],
  'payment.failed': ['bookings', 'notifications', 'audit'],
  'payment.intent.created': ['bookings', 'audit'],
} as const;

/** The last is a topic of the next release only. */
type TopicInUse = keyof typeof TOPICS | 'payment.settled';

/** Whether a run emits to a topic: relays ask for no others. */
export function isInUse(topic: string): boolean {
  return topic === 'payment.settled' || Object.hasOwn(TOPICS, topic);
}

/** Numbers of ordering keys, `key 13` and so on: the first four share a lane, and the next two. */
const KEYS = [13, 14, 19, 41, 6, 8];

/** What a handler does when it is called. */
export type Act =
  | { readonly act: 'returns at once' }
  | { readonly act: 'returns after'; readonly ms: number }
  | { readonly act: 'blocks its process for'; readonly ms: number }
  | { readonly act: 'throws after'; readonly ms: number }
  | { readonly act: 'breaks its transaction' }
  | { readonly act: 'overruns its time by'; readonly ms: number }
  | { readonly act: 'asks to wait'; readonly ms: number }
  | { readonly act: 'fails permanently' }
  | { readonly act: 'finds nobody there' }
  | { readonly act: 'exits its process' }
  | { readonly act: 'kills its process' };

/** What its handler does about an event at the first call, the second and so on; after the last it returns. */
export type Plan = Readonly<Partial<Record<string, readonly Act[]>>>;

export interface PlannedEmit {
  /** By which the history knows the event. */
  readonly tag: string;
  readonly topic: TopicInUse;
  /** 0: none but the catalog's. */
  readonly key: number;
  readonly thenMs: number;
  readonly plan: Plan;
  /** Of an event that happens later; left out where it happens at once. */
  readonly timer?: PlannedTimer;
}

interface PlannedTimer {
  /** How long after it is set it is due, by the run's clock. */
  readonly afterMs: number;
  /** Null: it can be neither moved nor cancelled. */
  readonly timerKey: string | null;
}

export interface PlannedCancel {
  readonly topic: TopicInUse;
  readonly timerKey: string;
}

export interface PlannedTransaction {
  /** Of the producer. */
  readonly release: Release;
  readonly waitMs: number;
  /** Timers that it cancels, before it emits. */
  readonly cancels?: readonly PlannedCancel[];
  readonly emits: readonly PlannedEmit[];
  readonly holdMs: number;
  readonly end: 'commit' | 'rollback' | 'lose the connection';
}

export type Fault =
  | { readonly fault: 'move the clock'; readonly ms: number }
  | { readonly fault: 'kill a relay'; readonly pick: number }
  /** A relay rests, and one of this release takes its place. */
  | { readonly fault: 'roll out'; readonly pick: number; readonly release: Release }
  | { readonly fault: 'stop a relay'; readonly pick: number; readonly forMs: number; readonly moveMs: number }
  | { readonly fault: 'crash the database' }
  /** Once a turn has placed events, and before anything else is written. */
  | { readonly fault: 'crash the database at a turn'; readonly claimed: 'nothing' | 'something' }
  | { readonly fault: 'cut a connection'; readonly pick: number }
  | { readonly fault: 'cut all connections' }
  | { readonly fault: 'lose'; readonly trap: Trap }
  | { readonly fault: 'stall the network'; readonly ms: number }
  | {
      readonly fault: 'replay';
      readonly topic: TopicInUse;
      readonly include: 'all' | 'dead_letters';
      readonly limit: number;
    }
  /** Of the topic that the next release lists one subscriber more for. Null: all at once. */
  | { readonly fault: 'backfill'; readonly perMinute: number | null };

/** How often the database pauses where it reads the clock, and for how long at most. */
export interface Pauses {
  readonly chance: number;
  readonly longestMs: number;
}

const SHORT_PAUSES: Pauses = { chance: 0.1, longestMs: 20 };
const LONG_PAUSES: Pauses = { chance: 0.3, longestMs: 60 };

/** What holds over all relays together. */
export type OverAllRelays = Pick<SubscriberLimits, 'rate' | 'concurrency'>;

export interface Schedule {
  /** The release of each. */
  readonly relays: readonly Release[];
  /** In statements of the relays (and the operator), and in those of the producers. */
  readonly pauses: { readonly relays: Pauses; readonly producers: Pauses };
  /** Of subscribers, by their names; left out where none has any. */
  readonly limits?: Readonly<Record<string, OverAllRelays>>;
  readonly producers: readonly (readonly PlannedTransaction[])[];
  readonly faults: readonly { readonly atMs: number; readonly what: Fault }[];
}

/** A kind of schedules, of which a seed gives any number. */
export type Schedules = fc.Arbitrary<Schedule>;

export const ms = (max: number) => fc.integer({ min: 0, max });
const pick = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
export const one = <Value>(
  ...choices: readonly (readonly [weight: number, arbitrary: fc.Arbitrary<Value>])[]
) => fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight: weight * 10, arbitrary })));
export const many = <Value>(arbitrary: fc.Arbitrary<Value>, minLength: number, maxLength: number) =>
  fc.array(arbitrary, { minLength, maxLength, size: 'max' });

export const fewPauses = fc.constantFrom(NO_PAUSES, SHORT_PAUSES);
const anyPauses = fc.constantFrom(NO_PAUSES, SHORT_PAUSES, LONG_PAUSES);

export const act: fc.Arbitrary<Act> = one<Act>(
  [2, fc.constant({ act: 'returns at once' })],
  [6, fc.record({ act: fc.constant('returns after' as const), ms: ms(140) })],
  [1, fc.record({ act: fc.constant('blocks its process for' as const), ms: ms(250) })],
  [5, fc.record({ act: fc.constant('throws after' as const), ms: ms(60) })],
  [2, fc.constant({ act: 'breaks its transaction' })],
  [1, fc.record({ act: fc.constant('overruns its time by' as const), ms: ms(300) })],
  [3, fc.record({ act: fc.constant('asks to wait' as const), ms: ms(10 * MINUTE) })],
  [3, fc.constant({ act: 'fails permanently' })],
  [0.5, fc.constant({ act: 'finds nobody there' })],
  [0.3, fc.constant({ act: 'exits its process' })],
  [0.3, fc.constant({ act: 'kills its process' })],
);

const acts = one<readonly Act[]>([8, fc.constant([])], [1.5, many(act, 1, 3)]);

const planFor = (names: readonly string[]): fc.Arbitrary<Plan> =>
  fc.record(Object.fromEntries(names.map((name) => [name, actsOf(name, acts)])));

/** A subscriber that waits in an outage is away for several events at once. */
export function actsOf(name: string, otherwise: fc.Arbitrary<readonly Act[]>): fc.Arbitrary<readonly Act[]> {
  const away = many(fc.constant<Act>({ act: 'finds nobody there' }), 1, 3);
  return waitsInOutage(name) ? one([2, otherwise], [1, away]) : otherwise;
}

function waitsInOutage(name: string): boolean {
  return SUBSCRIBERS.some((limits) => limits.name === name && limits.outage === 'wait');
}

export const key = fc.constantFrom(...KEYS);

const emit: fc.Arbitrary<PlannedEmit> = one<keyof typeof TOPICS>(
  [5, fc.constant('payment.captured')],
  [2, fc.constant('booking.rescheduled')],
  [2, fc.constant('payment.failed')],
).chain((topic) =>
  fc.record({
    tag: fc.constant(''),
    topic: fc.constant(topic),
    key: one([4, fc.constant(0)], [1, key]),
    thenMs: one([3, fc.constant(0)], [1, ms(15)]),
    plan: planFor(TOPICS[topic]),
  }),
);

export const end = one<PlannedTransaction['end']>(
  [8, fc.constant('commit')],
  [2, fc.constant('rollback')],
  [0.5, fc.constant('lose the connection')],
);

const transaction: fc.Arbitrary<PlannedTransaction> = fc.record({
  release: fc.constant<Release>('present'),
  waitMs: one([4, ms(30)], [1, ms(200)]),
  emits: one([2, many(emit, 1, 1)], [1, many(emit, 2, 2)]),
  holdMs: one([7, fc.constant(0)], [2, ms(60)], [0.5, ms(300)]),
  end,
});

/** One of many to few topics, each of which is quiet now and then all the same. Nothing is wrong with its event. */
const quickTransaction: fc.Arbitrary<PlannedTransaction> = fc.record({
  release: fc.constant<Release>('present'),
  waitMs: ms(60),
  emits: one<TopicInUse>([3, fc.constant('payment.intent.created')], [1, fc.constant('payment.failed')]).map(
    (topic) => [{ tag: '', topic, key: 0, thenMs: 0, plan: {} }],
  ),
  holdMs: one([15, fc.constant(0)], [1, ms(200)]),
  end,
});

// A handler's limit and the margin of its lease make 20.2 seconds.
const step = fc.constantFrom(1, 5, 21 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 6 * HOUR, DAY);

const crashAtTurn: fc.Arbitrary<Fault> = fc.record({
  fault: fc.constant('crash the database at a turn' as const),
  claimed: fc.constantFrom<('nothing' | 'something')[]>('nothing', 'something'),
});

export const fault: fc.Arbitrary<Fault> = one<Fault>(
  [8, fc.record({ fault: fc.constant('move the clock' as const), ms: step })],
  [1, fc.record({ fault: fc.constant('kill a relay' as const), pick })],
  [3, fc.record({ fault: fc.constant('stop a relay' as const), pick, forMs: ms(400), moveMs: step })],
  [0.3, fc.constant({ fault: 'crash the database' })],
  [1.6, crashAtTurn],
  [1, fc.record({ fault: fc.constant('cut a connection' as const), pick })],
  [1, fc.constant({ fault: 'cut all connections' })],
  [
    4,
    fc.record({
      fault: fc.constant('lose' as const),
      trap: fc.constantFrom<Trap[]>(
        'half a statement',
        'during a statement',
        'the answer',
        'the answer to a commit',
      ),
    }),
  ],
  [1, fc.record({ fault: fc.constant('stall the network' as const), ms: ms(250) })],
  [
    6,
    fc.record({
      fault: fc.constant('replay' as const),
      topic: fc.constantFrom<TopicInUse[]>(
        'payment.captured',
        'booking.rescheduled',
        'payment.failed',
        'payment.intent.created',
      ),
      include: fc.constantFrom<('all' | 'dead_letters')[]>('all', 'dead_letters', 'dead_letters'),
      limit: fc.integer({ min: 1, max: 20 }),
    }),
  ],
);

const faults = (fewest: number, most: number) =>
  many(fc.record({ atMs: ms(900), what: fault }), fewest, most);

export function presentRelays(min: number): fc.Arbitrary<readonly Release[]> {
  return fc.integer({ min, max: 4 }).map((count) => Array.from({ length: count }, () => 'present' as const));
}

/** All kinds of trouble, among events of several topics and keys. */
const troubled: fc.Arbitrary<Schedule> = fc.record({
  relays: presentRelays(1),
  pauses: fc.record({
    relays: anyPauses,
    producers: anyPauses,
  }),
  producers: many(many(transaction, 5, 12), 2, 5),
  faults: one([1, faults(0, 0)], [7, faults(1, 12)]),
});

/**
 * A race for the order of a lane: relays place events while producers emit to few topics without pause, and are held up long
 * enough for some of these to begin, to commit and to be followed by others.
 */
const crowded: fc.Arbitrary<Schedule> = fc.record({
  relays: presentRelays(2),
  pauses: fc.record({
    relays: fc.constant({ chance: 0.3, longestMs: 200 }),
    producers: fewPauses,
  }),
  producers: many(many(quickTransaction, 12, 24), 4, 5),
  faults: faults(0, 3),
});

/**
 * The steps by which the model finds a fence that reads its clock after the locks: all is quiet when a relay reads these, and
 * before it reads the clock one transaction begins that stays open, and another one that does not.
 */
const fenced: fc.Arbitrary<Schedule> = fc.record({
  relays: presentRelays(2),
  pauses: fc.constant({ relays: NO_PAUSES, producers: NO_PAUSES }),
  producers: fc
    .tuple(
      many(fencedTransaction(ms(60), fc.constant(0)), 60, 90),
      many(fencedTransaction(ms(250), fc.integer({ min: 150, max: 250 })), 8, 12),
    )
    .map((both) => [...both]),
  faults: fc.constant([]),
});

function fencedTransaction(waitMs: fc.Arbitrary<number>, holdMs: fc.Arbitrary<number>) {
  return fc.record({
    release: fc.constant<Release>('present'),
    waitMs,
    emits: fc.constant<PlannedEmit[]>([
      { tag: '', topic: 'payment.intent.created', key: 0, thenMs: 0, plan: {} },
    ]),
    holdMs,
    end: fc.constant<PlannedTransaction['end']>('commit'),
  });
}

/** What has keys leave the lane that they share: it fails, asks to wait, or takes long. */
const keyedActs = one<readonly Act[]>([5, fc.constant([])], [2, many(act, 1, 3)]);

const keyedTransaction: fc.Arbitrary<PlannedTransaction> = fc.record({
  release: fc.constant<Release>('present'),
  waitMs: ms(80),
  emits: many(
    fc.record({
      tag: fc.constant(''),
      topic: fc.constantFrom('payment.failed' as const, 'payment.intent.created' as const),
      key,
      thenMs: fc.constant(0),
      plan: fc.record(
        Object.fromEntries(TOPICS['payment.failed'].map((name) => [name, actsOf(name, keyedActs)])),
      ),
    }),
    1,
    3,
  ),
  holdMs: one([7, fc.constant(0)], [1, ms(60)]),
  end,
});

/** Retries fall due while events are emitted, so that keys come back to the lane that they share and leave it again. */
export const minutes: fc.Arbitrary<Fault> = fc.record({
  fault: fc.constant('move the clock' as const),
  ms: fc.constantFrom(MINUTE, 5 * MINUTE, 30 * MINUTE),
});

/** Many events of few keys, which share lanes and fail often. */
const keyed: fc.Arbitrary<Schedule> = fc.record({
  relays: presentRelays(1),
  pauses: fc.record({
    relays: fewPauses,
    producers: fc.constant(NO_PAUSES),
  }),
  producers: many(many(keyedTransaction, 8, 14), 2, 4),
  faults: many(fc.record({ atMs: ms(900), what: one([3, minutes], [2, fault]) }), 3, 12),
});

/** Whoever waits in an outage does not answer in time for longer than it takes all relays to know of it. */
const silenced: fc.Arbitrary<Schedule> = fc.record({
  relays: presentRelays(2),
  pauses: fc.constant({ relays: NO_PAUSES, producers: NO_PAUSES }),
  producers: many(
    many(
      fc.record({
        release: fc.constant<Release>('present'),
        waitMs: ms(150),
        emits: many(
          fc.record({
            tag: fc.constant(''),
            topic: fc.constant('payment.failed' as const),
            key,
            thenMs: fc.constant(0),
            plan: fc.constant(
              Object.fromEntries(
                TOPICS['payment.failed']
                  .filter((name) => waitsInOutage(name))
                  .map((name) => [
                    name,
                    Array.from({ length: 12 }, (): Act => ({ act: 'overruns its time by', ms: 20 })),
                  ]),
              ),
            ),
          }),
          1,
          1,
        ),
        holdMs: fc.constant(0),
        end: fc.constant<PlannedTransaction['end']>('commit'),
      }),
      20,
      30,
    ),
    2,
    3,
  ),
  faults: fc.constant([]),
});

/** Its handler ends the process of its relay, more often than any subscriber has attempts. */
const poison = fc.constantFrom<Act[]>(
  Array.from({ length: 9 }, () => ({ act: 'kills its process' })),
  Array.from({ length: 9 }, () => ({ act: 'exits its process' })),
);

const poisonedEmit: fc.Arbitrary<PlannedEmit> = fc
  .constantFrom<(keyof typeof TOPICS)[]>('payment.captured', 'payment.failed')
  .chain((topic) =>
    fc.record({
      tag: fc.constant(''),
      topic: fc.constant(topic),
      key: fc.constant(0),
      thenMs: fc.constant(0),
      plan: fc
        .constantFrom(...TOPICS[topic])
        .chain((name) => fc.record({ [name]: one<readonly Act[]>([3, fc.constant([])], [1, poison]) })),
    }),
  );

/** Events that no relay survives, and a database that forgets which relay had them. */
const poisoned: fc.Arbitrary<Schedule> = fc.record({
  relays: presentRelays(2),
  pauses: fc.record({ relays: fewPauses, producers: fc.constant(NO_PAUSES) }),
  producers: many(
    many(
      fc.record({
        release: fc.constant<Release>('present'),
        waitMs: ms(400),
        emits: many(poisonedEmit, 1, 1),
        holdMs: fc.constant(0),
        end: fc.constant<PlannedTransaction['end']>('commit'),
      }),
      5,
      8,
    ),
    2,
    3,
  ),
  faults: many(fc.record({ atMs: ms(900), what: one([2, crashAtTurn], [2, minutes]) }), 3, 6),
});

/** The steps by which the model finds a replayed delivery at a handler that refuses these: operators who do not know of that. */
const replayed: fc.Arbitrary<Schedule> = fc.record({
  relays: presentRelays(1),
  pauses: fc.record({ relays: fewPauses, producers: fc.constant(NO_PAUSES) }),
  producers: many(many(transaction, 5, 8), 2, 3),
  faults: many(
    fc.record({
      atMs: ms(900),
      what: fc.record({
        fault: fc.constant('replay' as const),
        topic: fc.constantFrom<TopicInUse[]>('payment.captured', 'booking.rescheduled'),
        include: fc.constant('all' as const),
        limit: fc.constantFrom(4, 8, 12, 16, 20),
      }),
    }),
    4,
    8,
  ),
});

/** Each event has a name of its own, by which its handlers find their plan. */
export function named(schedule: Schedule): Schedule {
  let count = 0;
  const withTag = (emit: PlannedEmit) => {
    count += 1;
    return { ...emit, tag: `event ${count}` };
  };
  const producers = schedule.producers.map((transactions) =>
    transactions.map((one) => ({ ...one, emits: one.emits.map(withTag) })),
  );
  return { ...schedule, producers };
}

const release = fc.constantFrom(...RELEASES);

/** Of the topics in which the releases differ. */
const emitOf = (releaseOf: Release): fc.Arbitrary<PlannedEmit> =>
  one<TopicInUse>(
    [3, fc.constant('payment.failed')],
    [3, fc.constant('booking.rescheduled')],
    [2, fc.constant('payment.intent.created')],
    [2, fc.constant(releaseOf === 'next' ? 'payment.settled' : 'payment.captured')],
  ).chain((topic) =>
    fc.record({
      tag: fc.constant(''),
      topic: fc.constant(topic),
      // The key of a booking is its own.
      key: one([4, fc.constant(0)], [1, key]),
      thenMs: one([3, fc.constant(0)], [1, ms(15)]),
      plan: planFor(SUBSCRIBERS.map(({ name }) => name)),
    }),
  );

const transactionOfEither: fc.Arbitrary<PlannedTransaction> = release.chain((releaseOf) =>
  fc.record({
    release: fc.constant(releaseOf),
    waitMs: one([4, ms(60)], [1, ms(200)]),
    emits: one([2, many(emitOf(releaseOf), 1, 1)], [1, many(emitOf(releaseOf), 2, 2)]),
    holdMs: one([7, fc.constant(0)], [2, ms(60)]),
    end,
  }),
);

const rollOut: fc.Arbitrary<Fault> = fc.record({
  fault: fc.constant('roll out' as const),
  pick,
  release,
});

const backfill: fc.Arbitrary<Fault> = fc.record({
  fault: fc.constant('backfill' as const),
  perMinute: fc.constantFrom(null, 60, 60, 1000),
});

/** One release replaces the other, and back, while both emit, and things go wrong. */
const rollout: fc.Arbitrary<Schedule> = fc.record({
  relays: fc.array(release, { minLength: 1, maxLength: 3, size: 'max' }),
  pauses: fc.record({
    relays: fewPauses,
    producers: fewPauses,
  }),
  producers: many(many(transactionOfEither, 5, 12), 2, 4),
  faults: many(fc.record({ atMs: ms(900), what: one([2, rollOut], [3, fault], [1, backfill]) }), 2, 12),
});

/** Without faults, and with nothing that its handlers would not return from. */
const plainTransaction = (releaseOf: Release): fc.Arbitrary<PlannedTransaction> =>
  fc.record({
    release: fc.constant(releaseOf),
    waitMs: ms(5),
    emits: fc.constant([{ tag: '', topic: JOINING.topic, key: 0, thenMs: 0, plan: {} }]),
    holdMs: fc.constant(0),
    end: fc.constant<PlannedTransaction['end']>('commit'),
  });

/**
 * The steps by which the model finds claims that hand over newer deliveries before a backfill: they wait for a release
 * that delivers them, a backfill begins and has written few of the older ones, and only then such a relay comes.
 */
const joined: fc.Arbitrary<Schedule> = fc
  .tuple(many(plainTransaction('present'), 6, 12), many(plainTransaction('next'), 1, 4))
  .map(([older, newer]) => ({
    relays: ['present'],
    pauses: { relays: NO_PAUSES, producers: NO_PAUSES },
    producers: [[...older, ...newer]],
    // When all of it has its place.
    faults: [{ atMs: 1500, what: { fault: 'backfill', perMinute: 60 } }],
  }));

/** Of one release: who emits what and when, what handlers make of it, and what goes wrong meanwhile. */
export const schedules: fc.Arbitrary<Schedule> = one([3, troubled], [2, crowded], [2, keyed]).map(named);

/** Of one release: a race for the order of few topics. */
export const crowdings: fc.Arbitrary<Schedule> = crowded.map(named);

/** Of one release: replays of all by operators whose release knows of no refusal. */
export const replayings: fc.Arbitrary<Schedule> = replayed.map(named);

/** Of one release: transactions of one topic, some of which stay open for long. */
export const fencings: fc.Arbitrary<Schedule> = fenced.map(named);

/** Of one release: many events of few keys, which fail often, and subscribers that are away. */
export const keyings: fc.Arbitrary<Schedule> = keyed.map(named);

/** Of one release: events for a subscriber that is away for long. */
export const silences: fc.Arbitrary<Schedule> = silenced.map(named);

/** Of one release: events that kill their relays, while the database crashes. */
export const poisonings: fc.Arbitrary<Schedule> = poisoned.map(named);

/** Of two releases on one database. */
export const rollouts: fc.Arbitrary<Schedule> = rollout.map(named);

/** Of two releases, one of which has a subscriber more, which a backfill gives what was emitted before it. */
export const joinings: fc.Arbitrary<Schedule> = joined.map(named);

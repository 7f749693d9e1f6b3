import fc from 'fast-check';

import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { NO_PAUSES } from './clock.ts';
import type { Release } from './releases.ts';
import {
  act,
  actsOf,
  end,
  fault,
  fewPauses,
  key,
  many,
  minutes,
  ms,
  named,
  one,
  presentRelays,
  rollouts,
  schedules,
  TOPICS,
} from './schedule.ts';
import type {
  Act,
  OverAllRelays,
  PlannedCancel,
  PlannedEmit,
  PlannedTransaction,
  Schedules,
} from './schedule.ts';

/** Few, so that producers meet at them. */
const TIMER_KEYS = ['a', 'b'];

const timerTopic = fc.constantFrom('payment.captured' as const, 'payment.failed' as const);

/** Most fall due in the run, some while a transaction that moves or cancels them is open; the others once the clock is moved. */
const afterMs = one(
  [4, ms(200)],
  [2, ms(700)],
  [2, fc.constant(-SECOND)],
  [2, fc.constantFrom(MINUTE, 2 * MINUTE, 5 * MINUTE)],
  [1, fc.constantFrom(HOUR, 7 * HOUR)],
);

const timerKey = fc.constantFrom(...TIMER_KEYS);

const timerEmit: fc.Arbitrary<PlannedEmit> = fc.record({
  tag: fc.constant(''),
  topic: timerTopic,
  key: one([4, fc.constant(0)], [1, key]),
  thenMs: fc.constant(0),
  plan: fc.constant({}),
  timer: fc.record({ afterMs, timerKey: one([1, fc.constant(null)], [3, timerKey]) }),
});

const cancel: fc.Arbitrary<PlannedCancel> = fc.record({ topic: timerTopic, timerKey });

/** Sets and moves timers, or cancels them, and stays open for a while after that. */
const timerTransaction: fc.Arbitrary<PlannedTransaction> = one(
  [2, fc.record({ cancels: many(cancel, 0, 0), emits: many(timerEmit, 1, 3) })],
  [1, fc.record({ cancels: many(cancel, 1, 2), emits: many(timerEmit, 0, 1) })],
).chain((does) =>
  fc.record({
    release: fc.constant<Release>('present'),
    waitMs: ms(60),
    cancels: fc.constant(does.cancels),
    emits: fc.constant(does.emits),
    holdMs: one([1, fc.constant(0)], [3, ms(150)]),
    end,
  }),
);

/** Producers that set, move and cancel timers, beside those of a schedule. */
const timers = many(many(timerTransaction, 6, 12), 1, 2);

const withTimers = (those: Schedules): Schedules =>
  fc
    .tuple(those, timers)
    .map(([schedule, producers]) => named({ ...schedule, producers: [...schedule.producers, ...producers] }));

/** Of one release, with timers. */
export const timings: Schedules = withTimers(schedules);

/** Of two releases, with timers. */
export const timedRollouts: Schedules = withTimers(rollouts);

/** Handlers take so long that several would run at once, and some of what they do is trouble. */
const slowActs = one<readonly Act[]>(
  [2, fc.constant([])],
  [4, many(fc.record({ act: fc.constant('returns after' as const), ms: ms(120) }), 1, 2)],
  [1, many(act, 1, 3)],
);

const limitedEmit: fc.Arbitrary<PlannedEmit> = fc
  .constantFrom('payment.captured' as const, 'payment.failed' as const)
  .chain((topic) =>
    fc.record({
      tag: fc.constant(''),
      topic: fc.constant(topic),
      key: one([1, fc.constant(0)], [3, key]),
      thenMs: fc.constant(0),
      plan: fc.record(Object.fromEntries(TOPICS[topic].map((name) => [name, actsOf(name, slowActs)]))),
    }),
  );

const limitedTransaction: fc.Arbitrary<PlannedTransaction> = fc.record({
  release: fc.constant<Release>('present'),
  waitMs: ms(80),
  emits: many(limitedEmit, 1, 3),
  holdMs: one([7, fc.constant(0)], [1, ms(60)]),
  end,
});

/** At most 2, 5 or 10 deliveries at once: fewer than wait. */
const rate = fc.constantFrom('40/m', '100/m', '200/m');
const concurrency = fc.integer({ min: 1, max: 3 });

const limit: fc.Arbitrary<OverAllRelays> = one<OverAllRelays>(
  [2, fc.record({ rate })],
  [2, fc.record({ concurrency })],
  [2, fc.record({ rate, concurrency })],
);

/**
 * Of one release, with timers: several relays, and events of few keys for subscribers of each kind with limits, one of which
 * waits in an outage, beside some that have none.
 */
export const limitings: Schedules = withTimers(
  fc.record({
    relays: presentRelays(2),
    pauses: fc.record({ relays: fewPauses, producers: fc.constant(NO_PAUSES) }),
    limits: fc.record({ bookings: limit, ledger: limit, accounting: limit, audit: limit }),
    producers: many(many(limitedTransaction, 5, 9), 2, 3),
    faults: many(fc.record({ atMs: ms(900), what: one([2, minutes], [3, fault]) }), 0, 6),
  }),
);

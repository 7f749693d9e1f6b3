import type { Scope } from './world.ts';

const NOTHING: Scope = {
  name: '',
  holds: '',
  producers: [],
  fannedOut: 0,
  relays: 1,
  subscribers: 1,
  handsOver: true,
  handler: 'plain',
  keys: [],
  maxAttempts: 2,
  maxDeliveries: 2,
  maxLanes: 1,
  haltsAtDeadLetter: false,
  refusesReplays: false,
  hasOldRelease: false,
  timers: 0,
  joinsLate: false,
  faults: {},
};

const scope = (name: string, holds: string, more: Partial<Scope>): Scope => ({
  ...NOTHING,
  name,
  holds,
  ...more,
});

const ORDER_ALONE = { producers: [1, 1], handsOver: false } as const;

/** From the smallest to the largest. */
export const SCOPES: readonly Scope[] = [
  scope('smallest', 'two producers with an event each, one of which may roll back, and a relay', {
    producers: [1, 1],
    faults: { rollback: 1 },
  }),
  scope('overlap', 'the order alone: two producers with two events each, and a relay', {
    ...ORDER_ALONE,
    producers: [2, 2],
  }),
  scope('fence', 'the order alone: two producers with an event each, two relays, one rollback', {
    ...ORDER_ALONE,
    relays: 2,
    faults: { rollback: 1 },
  }),
  scope('clock', 'the order alone: two producers, two relays, and the clock steps back once', {
    ...ORDER_ALONE,
    relays: 2,
    faults: { 'step back': 1 },
  }),
  scope(
    'restart',
    'the order alone: two producers, one of which prepares its transaction, a relay, and a restart',
    {
      ...ORDER_ALONE,
      faults: { prepare: 1, restart: 1 },
    },
  ),
  scope(
    'crash',
    'two producers, a relay that hands over, a crash of the database, with what was flushed or all, and a clock that steps back',
    {
      producers: [1, 1],
      faults: { crash: 1, 'step back': 1 },
    },
  ),
  scope('two-relays', 'two producers, and two relays that hand over', { producers: [1, 1], relays: 2 }),
  scope('failures', 'a producer with two events, and two relays whose handlers fail', {
    producers: [2],
    relays: 2,
    faults: { throw: 2, 'throw for good': 1 },
  }),
  scope('leases', 'two deliveries, two relays; handlers fail, one relay is stopped, one is killed', {
    fannedOut: 2,
    relays: 2,
    faults: { throw: 2, 'throw for good': 1, kill: 1, stop: 1 },
  }),
  scope(
    'leases-and-crash',
    'two deliveries, two relays, a failure, a relay that is stopped, and a crash of the database',
    {
      fannedOut: 2,
      relays: 2,
      faults: { throw: 1, stop: 1, crash: 1 },
    },
  ),
  scope(
    'transactions',
    'two deliveries to a transactional handler, two relays; failures, a stopped relay, a crash',
    {
      fannedOut: 2,
      relays: 2,
      handler: 'transactional',
      faults: { throw: 2, stop: 1, crash: 1 },
    },
  ),
  scope('batches', 'two deliveries to a handler of batches, two relays; failures, one relay is killed', {
    fannedOut: 2,
    relays: 2,
    handler: 'batch',
    faults: { throw: 2, kill: 1 },
  }),
  scope(
    'keys',
    'three deliveries of two keys that share a lane, and one more event; two relays; failures; a skip',
    {
      producers: [1],
      fannedOut: 3,
      relays: 2,
      keys: [1, 2, 1, 1],
      maxLanes: 2,
      maxDeliveries: 4,
      faults: { throw: 2, skip: 1 },
    },
  ),
  scope(
    'keys-one-by-one',
    'three deliveries of two keys that share a lane, claimed one at a time; a relay, and failures',
    {
      fannedOut: 3,
      keys: [1, 2, 1],
      maxLanes: 2,
      maxDeliveries: 1,
      faults: { throw: 2, kill: 1 },
    },
  ),
  scope('operators', 'two deliveries, two relays, failures; operators replay, skip and pause', {
    fannedOut: 2,
    relays: 2,
    faults: { throw: 2, replay: 2, skip: 1, pause: 1 },
  }),
  scope(
    'halts',
    'two deliveries to a handler whose dead letters halt the lane; operators replay and dismiss',
    {
      fannedOut: 2,
      relays: 2,
      haltsAtDeadLetter: true,
      faults: { 'throw for good': 2, replay: 1, kill: 1 },
    },
  ),
  scope('halted-keys', 'the same with keys that share a lane', {
    fannedOut: 3,
    relays: 1,
    keys: [1, 2, 1],
    maxLanes: 2,
    haltsAtDeadLetter: true,
    faults: { 'throw for good': 1, throw: 1, replay: 1 },
  }),
  scope(
    'backfill',
    'a subscriber that joined after the first of three events, two relays, one of which is killed; a skip',
    {
      fannedOut: 3,
      relays: 2,
      joinsLate: true,
      faults: { 'open backfill': 1, throw: 1, kill: 1, skip: 1 },
    },
  ),
  scope('refusals', 'two deliveries to a handler that refuses replays; operators of two releases', {
    fannedOut: 2,
    relays: 1,
    refusesReplays: true,
    faults: { 'throw for good': 1, replay: 1, 'replay of another release': 1 },
  }),
  scope('releases', 'two deliveries and one more event, two subscribers, and relays of two releases', {
    producers: [1],
    fannedOut: 2,
    relays: 2,
    subscribers: 2,
    hasOldRelease: true,
    maxLanes: 2,
  }),
  scope('timers', 'three timers, two of which a producer may cancel', {
    relays: 0,
    timers: 3,
    faults: { cancel: 2 },
  }),
  scope(
    'clock-and-overlap',
    'the order alone: a producer with two events and one with one, a relay, and the clock steps back once',
    {
      ...ORDER_ALONE,
      producers: [2, 1],
      faults: { 'step back': 1 },
    },
  ),
];

/** @throws Error with the names of all. */
export function scopeNamed(name: string): Scope {
  const found = SCOPES.find((one) => one.name === name);
  if (!found)
    throw new Error(`Unknown scope '${name}'. The scopes are ${SCOPES.map((one) => one.name).join(', ')}.`);
  return found;
}

import type { Scope } from './world.ts';

const NOTHING: Scope = {
  name: '',
  holds: '',
  producers: [],
  placed: 0,
  relays: 1,
  handsOver: true,
  isTransactional: false,
  keys: [],
  maxAttempts: 2,
  maxDeliveries: 2,
  haltsAtDeadLetter: false,
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

/** Two events of each of two keys. */
const KEYED = { placed: 4, keys: [1, 2, 1, 2], maxDeliveries: 4 } as const;

/** From the smallest to the largest. */
export const SCOPES: readonly Scope[] = [
  scope('smallest', 'two producers with an event each, one of which may roll back, and a relay', {
    producers: [1, 1],
    faults: { rollback: 1 },
  }),
  scope('fence', 'the order alone: two producers with an event each, two relays, one rollback', {
    ...ORDER_ALONE,
    relays: 2,
    faults: { rollback: 1 },
  }),
  scope('overlap', 'the order alone: two producers with two events each, and a relay', {
    ...ORDER_ALONE,
    producers: [2, 2],
  }),
  scope('clock', 'the order alone: two producers, two relays, and the clock steps back once', {
    ...ORDER_ALONE,
    relays: 2,
    faults: { 'step back': 1 },
  }),
  scope(
    'prepared',
    'the order alone: two producers, one of which prepares its transaction; a relay, a crash',
    {
      ...ORDER_ALONE,
      faults: { prepare: 1, crash: 1 },
    },
  ),
  scope(
    'crash',
    'two producers, a relay that hands over, and a crash of the database, with what was flushed or all',
    {
      producers: [1, 1],
      faults: { crash: 1 },
    },
  ),
  scope('two-relays', 'two producers, and two relays that hand over', { producers: [1, 1], relays: 2 }),
  scope(
    'leases',
    'two deliveries, two relays; handlers fail, one relay is stopped, one is killed, one cut short',
    {
      placed: 2,
      relays: 2,
      faults: { throw: 2, 'throw for good': 1, kill: 1, stop: 1, cut: 1 },
    },
  ),
  scope(
    'answers',
    'two deliveries, two relays; a failure, a settlement on the way, a stopped relay, a lost answer',
    {
      placed: 2,
      relays: 2,
      faults: { throw: 1, lose: 1, stop: 1, long: 1 },
    },
  ),
  scope(
    'leases-and-crash',
    'two deliveries, two relays, a failure, a stopped relay, and a crash of the database',
    {
      placed: 2,
      relays: 2,
      faults: { throw: 1, stop: 1, crash: 1 },
    },
  ),
  scope(
    'transactions',
    'two deliveries to a transactional handler, two relays; failures, lost answers, a stopped relay, a crash',
    {
      placed: 2,
      relays: 2,
      isTransactional: true,
      faults: { throw: 1, 'commit lost': 1, lose: 1, stop: 1, crash: 1 },
    },
  ),
  scope('keys', 'two deliveries of each of two keys, and a relay, which may be killed; failures', {
    ...KEYED,
    faults: { throw: 2, 'throw for good': 1, kill: 1 },
  }),
  scope(
    'keys-two-relays',
    'two deliveries of each of two keys, claimed two at a time by two relays; failures',
    {
      ...KEYED,
      maxDeliveries: 2,
      relays: 2,
      faults: { throw: 1, kill: 1, replay: 1 },
    },
  ),
  scope(
    'long',
    'three deliveries of two keys, two relays; handlers that run for long, one relay is killed; a replay',
    {
      placed: 3,
      keys: [1, 2, 1],
      relays: 2,
      faults: { throw: 1, long: 1, kill: 1, replay: 1 },
    },
  ),
  scope('long-and-lost', 'the same, but a turn whose answer is lost', {
    placed: 3,
    keys: [1, 2, 1],
    relays: 2,
    faults: { long: 2, lose: 1 },
  }),
  scope('operators', 'two deliveries, two relays, failures, one relay is killed; operators replay', {
    placed: 2,
    relays: 2,
    faults: { throw: 2, replay: 2, kill: 1 },
  }),
  scope(
    'halts',
    'two deliveries to a handler whose dead letters halt the lane; operators replay and dismiss',
    {
      placed: 2,
      relays: 2,
      haltsAtDeadLetter: true,
      faults: { 'throw for good': 2, replay: 1, kill: 1 },
    },
  ),
  scope('halted-keys', 'the same with two keys', {
    ...KEYED,
    haltsAtDeadLetter: true,
    faults: { 'throw for good': 1, throw: 1, replay: 1 },
  }),
  scope(
    'backfill',
    'a subscriber that joined after the first of three events; two relays, one of which is killed',
    {
      placed: 3,
      relays: 2,
      joinsLate: true,
      faults: { backfill: 1, throw: 1, kill: 1 },
    },
  ),
  scope('backfill-of-keys', 'the same with two keys, and a handler that runs for long', {
    placed: 3,
    keys: [1, 2, 1],
    joinsLate: true,
    faults: { backfill: 1, long: 1, kill: 1 },
  }),
];

/** @throws Error with the names of all. */
export function scopeNamed(name: string): Scope {
  const found = SCOPES.find((one) => one.name === name);
  if (!found)
    throw new Error(`Unknown scope '${name}'. The scopes are ${SCOPES.map((one) => one.name).join(', ')}.`);
  return found;
}

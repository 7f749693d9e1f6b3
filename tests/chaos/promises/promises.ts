/** What the bus promises. */
export const PROMISES = {
  1: 'every committed event, and no other, is delivered to or dead-lettered for each of its subscribers',
  2: 'events of a lane, or of a key, are handed over in (created_at, seq) order, one at a time, by the relay that holds the lane',
  3: 'no delivery has more attempts than its limit, or a shorter wait than the schedule',
  4: 'the effects of a transactional handler happen exactly once',
  5: "an event's state is the worst of its deliveries; no delivery is an orphan or a twin; all counts are exact",
  6: 'a delivery keeps its position and its history, even when it is replayed',
  7: 'no statements of the bus deadlock',
  8: 'a relay survives the loss of its database, and none of its turns fails by itself',
  9: 'no handler is handed a payload version that its release does not know',
  10: 'a lane, or a key, stops behind a dead letter that halts it until that is replayed or dismissed',
  11: 'while a subscriber does not answer, nothing is handed to it but one probe at a time, which uses up no attempt',
  12: 'a backfilled event comes before every newer one that is handed over after its backfill began, and none is missing',
  13: 'no replayed delivery reaches a handler that refuses replays',
  14: 'a timer becomes one event, at its time or later and after those that were due before it in its topic; one that was moved or cancelled becomes none',
  15: 'no subscriber has more handlers at once, or more deliveries in any stretch of time, than its limits allow over all relays',
} as const;

/** The ways to break a promise, each with its promise. A mutation names the ways that count for it. */
export const RULES = {
  /** An event does not reach the end that it should. */
  outcome: 1,
  /** An event comes before an older one, or before the one ahead of it was settled. */
  order: 2,
  /** Two handlers of a lane, or of a key in a lane with keys, run at once. */
  overlap: 2,
  /** A lease is over before the handler's time is. */
  lease: 2,
  /** A relay acts for a lane that it does not hold. */
  holder: 2,
  attempts: 3,
  wait: 3,
  effects: 4,
  consistency: 5,
  history: 6,
  deadlock: 7,
  survival: 8,
  version: 9,
  halt: 10,
  outage: 11,
  backfill: 12,
  refusal: 13,
  timer: 14,
  concurrency: 15,
  rate: 15,
} as const satisfies Record<string, keyof typeof PROMISES>;

export type Rule = keyof typeof RULES;

/** What was promised and did not hold. */
export interface Violation {
  readonly rule: Rule;
  /** In words. */
  readonly what: string;
  /** The report shows what else happened to these. */
  readonly about: { readonly eventId?: string; readonly laneId?: string; readonly subscriber?: string };
  /** When, by the run's clock; left out for what is wrong with the final state. */
  readonly t?: number;
}

/** Clocks are noted in whole milliseconds, and durations rounded. */
export const ROUNDING_MS = 3;

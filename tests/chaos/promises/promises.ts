/** What the bus promises: 1 to 6 as issue 5 of the project numbers them, what they rest on, and what holds between releases. */
export const PROMISES = {
  1: 'every committed event is delivered to, or dead-lettered for, each of its subscribers, and no other ever is',
  2: 'in each lane, or of each key, events come in (created_at, seq) order, one after the other, from whoever holds it',
  3: 'attempts stay within their limit, and waits are never shorter than the schedule',
  4: 'the effects of transactional handlers happen exactly once',
  5: "an event's state is the worst of its deliveries, there are no orphans and no twins, and the counts are true",
  6: 'a delivery keeps its position and its history, also when it is replayed',
  7: 'no statements of the bus wait for each other in a ring',
  8: 'a relay outlives the loss of its database',
  9: 'no handler is handed a payload of a version that its release does not know',
} as const;

/** How a promise can be broken, and which: what the mutations are told apart by. */
export const RULES = {
  /** An event ends in another way than it should, or not at all. */
  outcome: 1,
  /** An event comes before an older one, or before the one ahead of it was settled. */
  order: 2,
  /** Two handlers of a lane, or of a key in a shared one, run at once. */
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
} as const satisfies Record<string, keyof typeof PROMISES>;

export type Rule = keyof typeof RULES;

/** What was promised and did not hold. */
export interface Violation {
  readonly rule: Rule;
  /** In words. */
  readonly what: string;
  /** What else happened to these says more. */
  readonly about: { readonly eventId?: string; readonly laneId?: string; readonly subscriber?: string };
  /** When, by the run's clock; left out where it is a matter of the end. */
  readonly t?: number;
}

/** Clocks are noted in whole milliseconds, and durations rounded. */
export const ROUNDING_MS = 3;

import { expect } from 'vitest';

import { campaign } from './campaign.ts';
import type { Arena } from './campaign.ts';
import type { Mutation } from './mutations.ts';

/** The schedules are the same each time. The races in them are not. */
export const SEED = 1;

/** Races for the order of a lane: they show in one play of two to eight. */
const CROWDED = [37, 24, 53, 57];

/** Two releases on one database. */
const ROLLOUTS = [3, 19];

/** Of a mutation with schedules of its own. */
const FIRST = [0, 1, 2, 3];

/** A replay in every third schedule or so; not each finds deliveries of the subscriber that refuses. */
const REPLAYS = Array.from({ length: 40 }, (_, path) => path);

/** The schedules that soon show a mutation, by their places among those of the seed; by default the first. */
const PATHS: Readonly<Record<string, readonly number[]>> = {
  'no-fence': CROWDED,
  'fence-clock-after-locks': CROWDED,
  'sql-emit-without-lock': [9, ...CROWDED],
  'bound-passes-open-emitters': [0, 1],
  'place-without-lock': [24, 2, ...CROWDED],
  'claim-beside-an-open-exception': [1, 0],
  'settle-without-number': [5, 0],
  'lease-shorter-than-limit': [12, 13, 0],
  'replay-that-nobody-looks-at': [15, 29],
  'replay-reaches-refusing': [1, 4],
  'refused-replay-handed-over': [43, ...REPLAYS],
  'batch-settled-past-its-failure': [1],
  'innocent-burnt-by-shared-commit': [1],
  'newer-version-handed-over': ROLLOUTS,
  'successor-escapes-a-halt': [5, 3],
  'silent-subscriber-is-handed-more': FIRST,
  'cancelled-timer-released': FIRST,
  'rate-counted-by-each-relay': FIRST,
};

/** The mutations of `npm test`, one for the order, one for leases, one for outcomes; `npm run test:long` has all others. */
export const FOUND_AT_ONCE: readonly string[] = [
  'no-fence',
  'lease-shorter-than-limit',
  'effects-outside-of-the-transaction',
];

/** How often they are played, in turn, until the race shows the mistake. */
const TRIES = 160;

/** Plays schedules against a bus with a planted mistake, and expects that the checker finds a rule broken by it. */
export async function expectFound(arena: Arena, mutation: Mutation): Promise<void> {
  const own = PATHS[mutation.name] ?? [0];
  const paths = Array.from({ length: TRIES }, (_, index) => own[index % own.length]!);
  const { fall } = await campaign(arena, { mutation, seed: SEED, paths });
  expect(mutation.breaks).toContain(fall?.found[0].rule);
}

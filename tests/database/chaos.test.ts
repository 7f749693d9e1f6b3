import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { SECOND } from '../../lib/platform/time.ts';
import { campaign, openArena } from '../chaos/campaign.ts';
import type { Arena } from '../chaos/campaign.ts';
import { MUTATIONS } from '../chaos/mutations.ts';
import { inWords } from '../chaos/words.ts';

// A server of its own, which is made to crash.
let arena: Arena;
beforeAll(async () => {
  arena = await openArena();
});
afterAll(() => arena.close());

/** The schedules are the same each time. The races in them are not. */
const SEED = 1;

/** Races for the order of a lane: they show in one play of two to eight. */
const CROWDED = [38, 37, 24, 2];

/** Two releases on one database. */
const ROLLOUTS = [3, 11, 19];

/** The same, where a subscriber has another name in the next release. */
const RENAMES = [23, 31];

/** A replay in every third schedule or so; not each finds deliveries of the subscriber that refuses. */
const REPLAYS = Array.from({ length: 40 }, (_, path) => path);

/** The schedules that soon show a mutation, by their places among those of the seed; by default the first. */
const PATHS: Readonly<Record<string, readonly number[]>> = {
  'no-fence': CROWDED,
  'fence-clock-after-locks': CROWDED,
  'sql-emit-without-lock': [9, ...CROWDED],
  'bound-passes-open-emitters': [7, 9, 17, ...CROWDED],
  'fan-out-without-lock': [24, 2, ...CROWDED],
  'settle-without-token': [5, 0],
  'lease-shorter-than-limit': [12, 13, 0],
  'watermark-left-on-replay': [15, 29],
  'replay-reaches-refusing': [1, 4],
  'refused-replay-handed-over': [43, ...REPLAYS],
  'batch-settled-past-its-failure': [1],
  'innocent-burnt-by-shared-commit': [1],
  'rename-loses-waiting': RENAMES,
  'fan-out-by-own-catalog': ROLLOUTS,
  'newer-version-handed-over': ROLLOUTS,
  'successor-escapes-a-halt': [5, 3],
  'outage-burns-attempts-of-others': [44, 17, 52, 58],
  'live-before-backfilled': [19],
};

/** How often they are played, in turn, until the race shows the mistake. */
const TRIES = 60;

// `npm run chaos` plays more schedules, and others each time; with `--mutation all` up to 200 for each mutation.
describe('chaos runs: kills, crashes, cut connections, lost answers, moved clocks and replays at random', () => {
  it(
    'the bus keeps its promises in five runs, one of them with events that end their relays',
    async () => {
      const { fall, runs } = await campaign(arena, { mutation: null, seed: SEED, paths: [0, 1, 2, 3, 14] });
      expect(fall && inWords(fall)).toBe(null);
      expect(runs).toBe(5);
    },
    300 * SECOND,
  );

  it.each(MUTATIONS)(
    'the checker finds the mutation $name',
    async (mutation) => {
      const own = PATHS[mutation.name] ?? [0];
      const paths = Array.from({ length: TRIES }, (_, index) => own[index % own.length]!);
      const { fall } = await campaign(arena, { mutation, seed: SEED, paths });
      expect(mutation.breaks).toContain(fall?.found[0].rule);
    },
    600 * SECOND,
  );
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { SECOND } from '../../lib/platform/time.ts';
import { campaign, openArena } from '../chaos/campaign.ts';
import type { Arena } from '../chaos/campaign.ts';
import { expectFound, FOUND_AT_ONCE, SEED } from '../chaos/mistakes.ts';
import { MUTATIONS } from '../chaos/mutations.ts';
import { inWords } from '../chaos/words.ts';

// A server of its own, which is made to crash.
let arena: Arena;
beforeAll(async () => {
  arena = await openArena();
});
afterAll(() => arena.close());

// `npm run chaos` plays more schedules, and others each time; with `--mutation all` up to 200 for each mutation.
describe('chaos runs: kills, crashes, cut connections, lost answers, moved clocks and replays at random', () => {
  it(
    'the bus keeps its promises in four runs, one of them with events that end their relays',
    async () => {
      const { fall, runs } = await campaign(arena, {
        mutation: null,
        seed: SEED,
        paths: [0, 1, 2, 14],
      });
      expect(fall && inWords(fall)).toBe(null);
      expect(runs).toBe(4);
    },
    300 * SECOND,
  );

  it.each(MUTATIONS.filter(({ name }) => FOUND_AT_ONCE.includes(name)))(
    'the checker finds the mutation $name',
    async (mutation) => await expectFound(arena, mutation),
    600 * SECOND,
  );
});

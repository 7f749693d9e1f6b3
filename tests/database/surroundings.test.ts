import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { SECOND } from '../../lib/platform/time.ts';
import { buildBus } from '../chaos/build.ts';
import type { Build } from '../chaos/build.ts';
import { openArena } from '../chaos/campaign.ts';
import type { Arena } from '../chaos/campaign.ts';
import { SURROUNDED_MUTATIONS } from '../chaos/surroundings/mutations.ts';
import { SURROUNDINGS } from '../chaos/surroundings/surroundings.ts';

// A server of its own, which is restarted.
let arena: Arena;
let build: Build;
beforeAll(async () => {
  [arena, build] = await Promise.all([openArena(), buildBus([])]);
});
afterAll(async () => {
  await Promise.all([arena.close(), build.remove()]);
});

// `npm run chaos -- --surroundings` plays those that take longer too, and with `--mutation all` looks for planted mistakes.
describe('hostile surroundings', () => {
  for (const { name, point, inCi, lacks, play } of SURROUNDINGS) {
    if (!inCi) continue;
    it.skipIf((lacks?.() ?? null) !== null)(
      `the promises hold, or the refusal is one sentence: ${name} (point ${point})`,
      async () => {
        expect((await play({ arena, build })).broken).toEqual([]);
      },
      120 * SECOND,
    );
  }

  it.each(SURROUNDED_MUTATIONS)(
    'the mutation $name still fits the bus, and is looked for in a surrounding that there is',
    async ({ changes, foundBy }) => {
      const mutated = await buildBus(changes);
      await mutated.remove();
      expect(SURROUNDINGS.map(({ name }) => name)).toContain(foundBy);
    },
  );
});

import { afterAll, beforeAll, expect, test } from 'vitest';

import { SECOND } from '../../lib/platform/time.ts';
import { openArena } from '../chaos/campaign.ts';
import type { Arena } from '../chaos/campaign.ts';
import { expectFound, FOUND_AT_ONCE } from '../chaos/mistakes.ts';
import { MUTATIONS } from '../chaos/mutations.ts';

// A server of its own, which is made to crash.
let arena: Arena;
beforeAll(async () => {
  arena = await openArena();
});
afterAll(() => arena.close());

test('the mutations that `npm test` leaves to this file exist', () => {
  const names = MUTATIONS.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining([...FOUND_AT_ONCE]));
});

test.each(MUTATIONS.filter(({ name }) => !FOUND_AT_ONCE.includes(name)))(
  'the checker finds the mutation $name',
  async (mutation) => await expectFound(arena, mutation),
  600 * SECOND,
);

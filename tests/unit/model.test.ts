import { describe, expect, test } from 'vitest';

import { MUTATIONS } from '../chaos/mutations.ts';
import { MISTAKES, OUTSIDE } from '../model/mistakes.ts';
import { scopeNamed } from '../model/scopes.ts';
import { search } from '../model/search.ts';
import { inWords } from '../model/words.ts';

/** Found in seconds; `npm run model -- --mistake all` has the others. */
const SLOW: ReadonlySet<string> = new Set([
  'fence-clock-after-locks',
  'place-without-lock',
  'lease-longer-by-a-repetition',
]);

describe('the model of the bus', () => {
  test.each(['smallest', 'prepared', 'crash', 'backfill', 'backfill-of-keys'])(
    'in the bounds "%s" no interleaving breaks a promise',
    (name) => {
      const world = { scope: scopeNamed(name), mistake: null };
      const { isWhole, fall } = search(world);
      expect(fall && inWords(fall, world)).toBe(null);
      expect(isWhole).toBe(true);
    },
  );

  test.each(MISTAKES.filter(({ name }) => !SLOW.has(name)))(
    'the search finds the mistake $name',
    (mistake) => {
      const { fall } = search({ scope: scopeNamed(mistake.scope), mistake: mistake.name });
      expect(mistake.breaks).toContain(fall?.rule);
    },
  );

  test('a schedule that breaks a promise is the shortest, in words', () => {
    const world = { scope: scopeNamed('leases'), mistake: 'lease-shorter-than-limit' } as const;
    expect(inWords(search(world).fall!, world).split('\n').slice(2)).toEqual([
      '   1  relay 1 begins a turn, and gathers what its handlers did',
      '   2  relay 1 settles, claims what is due, and commits',
      '   3  relay 1 calls the handler (A)',
      '   4  the lease of the lane runs out',
      '      Here the promise is broken.',
    ]);
  });

  test('the model has each mistake of the chaos runs, or says why it has not', () => {
    const known = [...MISTAKES.map(({ name }) => name), ...Object.keys(OUTSIDE)];
    expect(known).toEqual(expect.arrayContaining(MUTATIONS.map(({ name }) => name)));
  });
});

import { describe, expect, inject, test } from 'vitest';

import { MISTAKES } from '../model/mistakes.ts';
import { compare, covering, isBroken, wander } from '../model/postgres/play.ts';
import { PLANTED } from '../model/postgres/planted.ts';
import { Stage } from '../model/postgres/stage.ts';
import { scopeNamed } from '../model/scopes.ts';
import { search } from '../model/search.ts';
import { encode } from '../model/state.ts';
import { randomFrom } from '../support/random.ts';

/** One of so many schedules; `npm run model -- --postgres` plays all. */
const EVERY = 90;

describe('a real Postgres does what the model of the bus does', () => {
  test('in schedules of the smallest scope, after each step', async ({ onTestFinished }) => {
    const stage = await Stage.open(inject('postgresUrl'));
    onTestFinished(() => stage.close());
    const world = { scope: scopeNamed('smallest'), mistake: null };
    const schedules = [...covering(world, encode)].filter((_, index) => index % EVERY === 0);
    for (const schedule of schedules) expect(await compare(stage, schedule, world)).toBe(null);
  });

  test.each(['fence', 'two-relays', 'failures'])(
    'in schedules of the scope "%s" by chance, after each step',
    async (name) => {
      const stage = await Stage.open(inject('postgresUrl'));
      const world = { scope: scopeNamed(name), mistake: null };
      const random = randomFrom(1);
      try {
        for (let plays = 0; plays < 5; plays += 1)
          expect(await compare(stage, wander(world, random), world)).toBe(null);
      } finally {
        await stage.close();
      }
    },
  );

  test.each(
    MISTAKES.filter(({ name }) =>
      ['no-fence', 'bound-passes-open-emitters', 'repeatable-read'].includes(name),
    ),
  )(
    'the schedule by which the model finds $name breaks a bus that makes it, and no other',
    async (mistake) => {
      const world = { scope: scopeNamed(mistake.scope), mistake: mistake.name };
      const { schedule } = search(world).fall!;
      const { changes, settings } = PLANTED.get(mistake.name)!;
      const sound = await Stage.open(inject('postgresUrl'));
      const mistaken = await Stage.open(inject('postgresUrl'), changes, settings);
      const broken = [await isBroken(sound, schedule, world), await isBroken(mistaken, schedule, world)];
      await sound.close();
      await mistaken.close();
      expect(broken).toEqual([false, true]);
    },
  );
});

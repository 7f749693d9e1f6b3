import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { MISTAKES } from '../model/mistakes.ts';
import { CRASHING, SAMPLED, scheduleOf } from '../model/postgres/command.ts';
import { compare } from '../model/postgres/play.ts';
import { PLANTED } from '../model/postgres/planted.ts';
import { covering, wander } from '../model/postgres/schedules.ts';
import { Stage } from '../model/postgres/stage.ts';
import { scopeNamed } from '../model/scopes.ts';
import { encode } from '../model/state.ts';
import { startPostgres } from '../support/postgres.ts';
import { randomFrom } from '../support/random.ts';

/** One of so many schedules; `npm run model -- --postgres` plays all. */
const EVERY = 90;

describe('a real Postgres does what the model of the bus does', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.open({ url: inject('postgresUrl') });
  });
  afterAll(() => stage.close());

  test('in schedules of the smallest scope, after each step', async () => {
    const world = { scope: scopeNamed('smallest'), mistake: null };
    const schedules = [...covering(world, encode)].filter((_, index) => index % EVERY === 0);
    for (const schedule of schedules) expect(await compare(stage, schedule, world)).toBe(null);
  });

  test.each(SAMPLED)('in schedules of the scope "%s" by chance, after each step', async (name) => {
    const world = { scope: scopeNamed(name), mistake: null };
    const random = randomFrom(1);
    for (let plays = 0; plays < 3; plays += 1)
      expect(await compare(stage, wander(world, random), world)).toBe(null);
  });

  test('in schedules in which the server ends and starts again', async () => {
    const server = await startPostgres({ isDurable: false });
    const own = await Stage.open(server);
    const random = randomFrom(1);
    const differences: (string | null)[] = [];
    for (const name of CRASHING) {
      const world = { scope: scopeNamed(name), mistake: null };
      for (let plays = 0; plays < 3; plays += 1)
        differences.push(await compare(own, wander(world, random), world));
    }
    await own.close();
    await server.stop();
    expect(differences).toEqual(differences.map(() => null));
  });

  test.each(
    MISTAKES.filter(({ name }) =>
      ['no-fence', 'repeatable-read', 'live-before-backfilled', 'timer-passes-a-locked-one'].includes(name),
    ),
  )(
    'the schedule by which the model finds $name is possible on a bus that makes it, and on no other',
    async (mistake) => {
      const world = { scope: scopeNamed(mistake.scope), mistake: mistake.name };
      const schedule = scheduleOf(world);
      const mistaken = await Stage.open({ url: inject('postgresUrl') }, PLANTED.get(mistake.name));
      const difference = await compare(mistaken, schedule, world);
      await mistaken.close();
      expect(difference).toBe(null);
      expect(await compare(stage, schedule, world)).not.toBe(null);
    },
  );
});

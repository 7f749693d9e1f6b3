import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { MISTAKES } from '../model/mistakes.ts';
import { CRASHING, playerOf, sampled, SAMPLED, scheduleOf } from '../model/postgres/command.ts';
import { Producer, Relay } from '../model/postgres/actors.ts';
import type { compare } from '../model/postgres/play.ts';
import { PLANTED, SOUND, UNPLAYED } from '../model/postgres/planted.ts';
import { covering, wander } from '../model/postgres/schedules.ts';
import { Stage } from '../model/postgres/stage.ts';
import { scopeNamed } from '../model/scopes.ts';
import { encode } from '../model/state.ts';
import { startPostgres } from '../support/postgres.ts';
import { randomFrom } from '../support/random.ts';
import { RECORDS } from '../support/records.ts';

/** One of so many schedules; `npm run model -- --postgres` plays all. */
const EVERY = 90;

describe('a real Postgres does what the model of the bus does', () => {
  let stage: Stage;
  let play: typeof compare;
  beforeAll(async () => {
    stage = await Stage.open({ url: inject('postgresUrl') });
    play = await playerOf(SOUND.changes);
  });
  afterAll(() => stage.close());

  test('in schedules of the smallest scope, after each step', async () => {
    const world = { scope: scopeNamed('smallest'), mistake: null };
    const schedules = [...covering(world, encode)].filter((_, index) => index % EVERY === 0);
    for (const schedule of schedules) expect(await play(stage, schedule, world)).toBe(null);
  });

  test.each(SAMPLED)('in schedules of the scope "%s" by chance, after each step', async (name) => {
    const world = sampled(name);
    const random = randomFrom(1);
    for (let plays = 0; plays < 3; plays += 1)
      expect(await play(stage, wander(world, random), world)).toBe(null);
  });

  test('in schedules in which the server ends and starts again', async () => {
    const server = await startPostgres({ isDurable: false });
    const own = await Stage.open(server);
    const random = randomFrom(1);
    const differences: (string | null)[] = [];
    for (const name of CRASHING) {
      const world = { scope: scopeNamed(name), mistake: null };
      for (let plays = 0; plays < 3; plays += 1)
        differences.push(await play(own, wander(world, random), world));
    }
    await own.close();
    await server.stop();
    expect(differences).toEqual(differences.map(() => null));
  });

  // The relay's clock is ahead here: for it the others' steps back once it has read its own.
  test.each(['try', 'locks'] as const)(
    'events that are recorded while the clock steps back under a relay (%s) keep their order',
    async (how) => {
      const own = await Stage.open({ url: inject('postgresUrl') });
      await own.query(`create or replace function model.clock_timestamp() returns timestamptz language plpgsql as $$
        begin
          if model.who() >= 10 then perform model.gate(); end if;
          if model.who() >= 10 then perform model.gate(); end if;
          return pg_catalog.clock_timestamp() + case when model.who() < 10 then interval '1 minute' else '0' end;
        end $$`);
      const [older, newer, first] = [
        await own.add(new Producer(own, 0, false)),
        await own.add(new Producer(own, 1, false)),
        await own.add(new Producer(own, 2, true)),
      ];
      const relay = await own.add(new Relay(own, 0, { ...scopeNamed('smallest'), handsOver: false }));
      await first.query('begin');
      await first.emit(0, undefined);
      await first.query('commit');
      await older.query('begin');
      await newer.query('begin');
      await own.choose(0, how === 'try', false);
      await relay.turn([]);
      await relay.goOn();
      await relay.goOn();
      // It has read its clock and the locks.
      await older.emit(1, undefined);
      await newer.emit(2, undefined);
      for (const producer of [older, older, newer, newer]) await producer.goOn();
      await newer.query('commit');
      await relay.goOn();
      await older.query('commit');
      for (let turns = 0; turns < 3; turns += 1) {
        while ((await relay.rests()) === 'gate') await relay.goOn();
        await relay.turn([]);
      }
      const placed = await own.query<{ payment: number }>(`
        select (payload ->> 'amountMinor')::int as payment from ${RECORDS} join events on events.id = event_id
        where subscriber = 'ledger' order by position`);
      await own.close();
      expect(placed.map(({ payment }) => payment)).toEqual([1, 2, 3]);
    },
  );

  test.each(
    MISTAKES.filter(({ name }) =>
      [
        'no-fence',
        'repeatable-read',
        'live-before-backfilled',
        'timer-passes-a-locked-one',
        'watermark-left-on-replay',
        'failure-in-handler-transaction',
        'innocent-burnt-by-shared-commit',
        'batch-settled-past-its-failure',
      ].includes(name),
    ),
  )(
    'the schedule by which the model finds $name is possible on a bus that makes it, and on no other',
    async (mistake) => {
      const world = { scope: scopeNamed(mistake.scope), mistake: mistake.name };
      const schedule = scheduleOf(world);
      const planted = PLANTED.get(mistake.name)!;
      const mistaken = await Stage.open({ url: inject('postgresUrl') }, planted);
      const difference = await (await playerOf(planted.changes))(mistaken, schedule, world);
      await mistaken.close();
      expect(difference).toBe(null);
      expect(await play(stage, schedule, world)).not.toBe(null);
    },
  );

  test('each mistake of the model is played, or it is said why not', () => {
    expect([...PLANTED.keys(), ...Object.keys(UNPLAYED)].toSorted()).toEqual(
      MISTAKES.map(({ name }) => name).toSorted(),
    );
  });
});

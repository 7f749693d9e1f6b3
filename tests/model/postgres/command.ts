import { startPostgres } from '../../support/postgres.ts';
import { randomFrom } from '../../support/random.ts';
import { MISTAKES } from '../mistakes.ts';
import { search } from '../search.ts';
import { scopeNamed } from '../scopes.ts';
import { encode } from '../state.ts';
import { compare, covering, isBroken, wander } from './play.ts';
import { PLANTED } from './planted.ts';
import { Stage } from './stage.ts';

/** What is played: the schedules that cover the smallest scope, and of larger ones so many by chance. */
export interface PlayOptions {
  /** Of a server to use; null: the one that comes with the tests. */
  readonly serverUrl: string | null;
  readonly sample: number;
  readonly seed: number;
}

/** Of which schedules are played by chance: more of producers, of relays, and of handlers that fail. */
const SAMPLED = ['fence', 'two-relays', 'failures'];

/** Plays schedules on a real Postgres. @returns whether it did in each step what the model does. */
export async function playOnPostgres({ serverUrl, sample, seed }: PlayOptions): Promise<boolean> {
  const server = serverUrl === null ? await startPostgres({ isDurable: false }) : null;
  const url = serverUrl ?? server!.url;
  const stage = await Stage.open(url);
  try {
    const [{ version } = { version: '' }] = await stage.query<{ version: string }>('select version()');
    console.log(
      `${version.split(' on ')[0]}, seed ${seed}\n\n${'scope'.padEnd(18)}${'schedules'.padStart(10)}${'steps'.padStart(9)}${'seconds'.padStart(9)}`,
    );
    const random = randomFrom(seed);
    for (const name of ['smallest', ...SAMPLED]) {
      const world = { scope: scopeNamed(name), mistake: null };
      const all =
        name === 'smallest'
          ? [...covering(world, encode)]
          : Array.from({ length: sample }, () => wander(world, random));
      const beganAt = performance.now();
      for (const schedule of all) {
        const difference = await compare(stage, schedule, world);
        if (difference === null) continue;
        console.log(`\nPostgres and the model differ in ${name}:\n\n${difference}`);
        return false;
      }
      const steps = all.reduce((sum, { length }) => sum + length, 0);
      const seconds = ((performance.now() - beganAt) / 1000).toFixed(0);
      console.log(
        `${name.padEnd(18)}${`${all.length}`.padStart(10)}${`${steps}`.padStart(9)}${seconds.padStart(9)}`,
      );
    }
    return await playMistakes(url, stage);
  } finally {
    await stage.close();
    await server?.stop();
  }
}

/** Plays the schedules that break the order in the model: on the bus as it is, and with the mistake built in. */
async function playMistakes(url: string, stage: Stage): Promise<boolean> {
  console.log(`\n${'mistake'.padEnd(34)}steps  the bus as it is  with the mistake`);
  let isRight = true;
  for (const { name, scope } of MISTAKES.filter((mistake) => PLANTED.has(mistake.name))) {
    const world = { scope: scopeNamed(scope), mistake: name };
    const { schedule } = search(world).fall!;
    const { changes, settings } = PLANTED.get(name)!;
    const mistaken = await Stage.open(url, changes, settings);
    const [sound, broken] = [
      await isBroken(stage, schedule, world),
      await isBroken(mistaken, schedule, world),
    ];
    await mistaken.close();
    const say = (isIt: boolean) => (isIt ? 'breaks' : 'holds');
    console.log(
      `${name.padEnd(34)}${`${schedule.length}`.padStart(5)}  ${say(sound).padEnd(17)}${say(broken)}`,
    );
    isRight &&= !sound && broken;
  }
  return isRight;
}

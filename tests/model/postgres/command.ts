import type { Rule } from '../../chaos/promises/promises.ts';
import { importWith } from '../../chaos/build.ts';
import type { Change } from '../../chaos/build.ts';
import { startPostgres } from '../../support/postgres.ts';
import { randomFrom } from '../../support/random.ts';
import { MISTAKES } from '../mistakes.ts';
import { scopeNamed } from '../scopes.ts';
import { search } from '../search.ts';
import { encode } from '../state.ts';
import type { Step } from '../steps.ts';
import type { World } from '../world.ts';
import { PATIENT } from './instruments.ts';
import type * as Player from './play.ts';
import { PLANTED, SOUND, UNPLAYED } from './planted.ts';
import { covering, toItsEnd, wander } from './schedules.ts';
import { Stage } from './stage.ts';
import type { Server } from './stage.ts';

/** What is played: schedules that cover the smallest scopes, and of larger ones so many by chance. */
export interface PlayOptions {
  /** Of a server to use; null: the one that comes with the tests, which can be made to crash. */
  readonly serverUrl: string | null;
  readonly sample: number;
  readonly seed: number;
  /** Plays only the schedules of this mistake, or of `all`; null: everything. */
  readonly mistake: string | null;
}

const COVERED = ['smallest', 'timers'];

/** Of which schedules are played by chance: more producers and relays, and all that goes wrong. */
export const SAMPLED = [
  'fence',
  'two-relays',
  'failures',
  'leases',
  'keys-one-by-one',
  'operators',
  'halts',
  'backfill',
  'refusals',
  'batches',
  'transactions',
];

/** Handlers' transactions that a crash ends run again at once, which the model does not have. */
export function sampled(name: string): World {
  const scope = scopeNamed(name);
  return { scope: { ...scope, faults: { ...scope.faults, crash: 0 } }, mistake: null };
}

/** The same, with a database that ends and starts again, which takes a second. */
export const CRASHING = ['restart', 'crash', 'leases-and-crash'];

/** Gives the player of a bus. @param changes build a mistake into it. */
export async function playerOf(changes: readonly Change[]): Promise<typeof Player.compare> {
  const { compare: play } = await importWith<typeof Player>('tests/model/postgres/play.ts', [
    ...changes.filter(({ file }) => file.endsWith('.ts')),
    ...PATIENT,
  ]);
  return play;
}

/** Plays schedules on a real Postgres. @returns whether it did in each step what the model does. */
export async function playOnPostgres({ serverUrl, sample, seed, mistake }: PlayOptions): Promise<boolean> {
  const own = serverUrl === null ? await startPostgres({ isDurable: false }) : null;
  const server = own ?? { url: serverUrl! };
  try {
    const isSound = mistake !== null || (await playScopes(server, sample, seed));
    return isSound && (await playMistakes(server, mistake ?? 'all'));
  } finally {
    await own?.stop();
  }
}

async function playScopes(server: Server, sample: number, seed: number): Promise<boolean> {
  const stage = await Stage.open(server);
  const play = await playerOf([]);
  try {
    const [{ version } = { version: '' }] = await stage.query<{ version: string }>('select version()');
    console.log(
      `${version.split(' on ')[0]}, seed ${seed}\n\n${'scope'.padEnd(18)}${'schedules'.padStart(10)}${'steps'.padStart(9)}${'seconds'.padStart(9)}`,
    );
    const random = randomFrom(seed);
    for (const name of [...COVERED, ...SAMPLED, ...(server.restart ? CRASHING : [])]) {
      const world = SAMPLED.includes(name) ? sampled(name) : { scope: scopeNamed(name), mistake: null };
      const all = COVERED.includes(name)
        ? [...covering(world, encode)]
        : Array.from({ length: sample }, () => wander(world, random));
      if (!(await playAll(stage, play, all, world))) return false;
    }
    return true;
  } finally {
    await stage.close();
  }
}

async function playAll(
  stage: Stage,
  play: typeof Player.compare,
  all: readonly (readonly Step[])[],
  world: World,
): Promise<boolean> {
  const { name } = world.scope;
  const beganAt = performance.now();
  for (const schedule of all) {
    const difference = await play(stage, schedule, world);
    if (difference === null) continue;
    console.log(`\nPostgres and the model differ in ${name}:\n\n${difference}`);
    return false;
  }
  const steps = all.reduce((sum, { length }) => sum + length, 0);
  const seconds = ((performance.now() - beganAt) / 1000).toFixed(0);
  console.log(
    `${name.padEnd(18)}${`${all.length}`.padStart(10)}${`${steps}`.padStart(9)}${seconds.padStart(9)}`,
  );
  return true;
}

/** What is wrong with these is nothing that the tables show, or is lost: it shows when nothing is left to do. */
const LATE: ReadonlySet<Rule> = new Set<Rule>(['outcome', 'holder', 'attempts']);

/** The schedule that a mistake is found by, as it is played. */
export function scheduleOf(world: World): Step[] {
  const { rule, schedule } = search(world).fall!;
  return LATE.has(rule) ? toItsEnd(schedule, world) : [...schedule];
}

/**
 * Plays the schedules that break a promise in the model. The bus with the same mistake must do what the model does, up to the
 * broken promise, and the bus as it is must not.
 */
async function playMistakes(server: Server, wanted: string): Promise<boolean> {
  console.log(`\n${'mistake'.padEnd(34)}steps  the bus as it is  with the mistake`);
  let areRight = true;
  for (const { name, scope } of MISTAKES) {
    const mistake = PLANTED.get(name);
    if (!mistake || (wanted !== 'all' && wanted !== name)) continue;
    const world = { scope: scopeNamed(scope), mistake: name };
    const schedule = scheduleOf(world);
    if (!server.restart && schedule.some((step) => /crash|restart/.test(step.name))) continue;
    const played: (string | null)[] = [];
    // One after the other, as the server of both may end.
    for (const made of [SOUND, mistake]) {
      const stage = await Stage.open(server, made);
      played.push(await (await playerOf(made.changes))(stage, schedule, world));
      await stage.close();
    }
    const [sound, broken] = played;
    const [holds, breaks] = [sound === null ? 'BREAKS' : 'holds', broken === null ? 'breaks' : 'HOLDS'];
    console.log(`${name.padEnd(34)}${`${schedule.length}`.padStart(5)}  ${holds.padEnd(17)}${breaks}`);
    if (broken !== null) console.log(`\n${broken}\n`);
    areRight &&= sound !== null && broken === null;
  }
  if (wanted === 'all')
    for (const [name, reason] of Object.entries(UNPLAYED))
      console.log(`${name.padEnd(34)}not played: ${reason}`);
  return areRight;
}

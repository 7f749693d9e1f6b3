import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { MINUTE } from '../../lib/time.ts';
import { ROOT } from './build.ts';
import { campaign, openArena } from './campaign.ts';
import type { Arena, Campaign } from './campaign.ts';
import { MUTATIONS } from './mutations.ts';
import type { Mutation } from './mutations.ts';
import { RULES } from './promises/promises.ts';
import { inShort, inWords } from './words.ts';

const USAGE = `npm run chaos -- [--seed N] [--runs N] [--minutes N] [--path P] [--mutation NAME|all]

  --seed N         the schedules to play; without it, others each time
  --runs N         how many (60; with a mutation 200 at most)
  --minutes N      begin no run after so many minutes
  --path P         only the one schedule that a violation was reported for (with its seed), up to --runs times (20)
  --mutation NAME  break the bus in one way and see that it is noticed; all: in every way, then the bus as it is
                   ${MUTATIONS.map(({ name }) => name).join('\n                   ')}
  --code FOLDER    another copy of the project, whose lib/ and drizzle/ to test`;

/** Some three minutes on two cores. */
const RUNS = 60;
const RUNS_OF_A_MUTATION = 200;
const RUNS_OF_A_PATH = 20;

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    runs: { type: 'string' },
    minutes: { type: 'string' },
    path: { type: 'string' },
    mutation: { type: 'string' },
    code: { type: 'string' },
    help: { type: 'boolean' },
  },
});

const seed = values.seed === undefined ? Math.trunc(Math.random() * 1_000_000_000) : Number(values.seed);

async function main(): Promise<number> {
  const chosen = MUTATIONS.filter(({ name }) => values.mutation === 'all' || values.mutation === name);
  const numbers = [values.seed, values.runs, values.minutes, values.path];
  const isNumeric = numbers.every((value) => value === undefined || /^\d+$/.test(value));
  if (values.help || !isNumeric || (values.mutation !== undefined && chosen.length === 0)) {
    console.log(USAGE);
    return values.help ? 0 : 2;
  }
  const arena = await openArena(resolve(values.code ?? ROOT));
  try {
    const isNoticed = await holdMutations(arena, chosen);
    if (chosen.length > 0 && values.mutation !== 'all') return isNoticed ? 0 : 1;
    const isSound = await holdBus(arena);
    return isNoticed && isSound ? 0 : 1;
  } finally {
    await arena.close();
  }
}

/** The bus as it is. @returns whether it kept its promises. */
async function holdBus(arena: Arena): Promise<boolean> {
  console.log(`The bus as it is, seed ${seed}:\n\n  runs   events    calls   faults  seconds`);
  const result = await play(arena, null, (state) => {
    if (state.runs % 10 === 0) console.log(figures(state));
  });
  if (result.runs % 10 !== 0) console.log(figures(result));
  const { fall, runs } = result;
  if (fall) {
    console.log(`\n${inWords(fall)}\n\n${again(fall.path, null)}`);
    return false;
  }
  console.log(`\nAll promises held in ${runs} runs. Seed ${seed}.`);
  return true;
}

function figures({ runs, events, calls, faults, seconds }: Campaign): string {
  const rest = [events, calls, faults, Math.round(seconds)].map((figure) => `${figure}`.padStart(9)).join('');
  return `${runs}`.padStart(6) + rest;
}

/** @returns whether each was noticed. */
async function holdMutations(arena: Arena, mutations: readonly Mutation[]): Promise<boolean> {
  if (mutations.length === 0) return true;
  console.log(`The bus with a mistake in it, seed ${seed}:\n`);
  console.log(`  ${'mistake'.padEnd(32)}runs  seconds  promise  what gave it away`);
  let isNoticed = true;
  for (const mutation of mutations) {
    const result = await play(arena, mutation);
    console.log(verdict(mutation, result));
    for (const { path, history, found } of result.others)
      console.log(`    run ${path} broke another promise: ${inShort(history, found[0])}`);
    isNoticed &&= result.fall !== null;
    if (result.fall && mutations.length === 1)
      console.log(`\n${inWords(result.fall)}\n\n${again(result.fall.path, mutation)}`);
  }
  console.log('');
  return isNoticed;
}

function verdict({ name }: Mutation, { runs, seconds, fall }: Campaign): string {
  const promise = fall ? RULES[fall.found[0].rule] : '–';
  const what = fall ? inShort(fall.history, fall.found[0]) : 'NOTHING: it went unnoticed';
  return `  ${name.padEnd(32)}${`${runs}`.padStart(4)}${seconds.toFixed(0).padStart(9)}${`${promise}`.padStart(9)}  ${what}`;
}

function again(path: number, mutation: Mutation | null): string {
  const command = `npm run chaos -- --seed ${seed} --path ${path}${mutation ? ` --mutation ${mutation.name}` : ''}`;
  return `Play this schedule again, until it falls again (races need not come out the same way):\n  ${command}`;
}

async function play(
  arena: Arena,
  mutation: Mutation | null,
  onRun?: (state: Campaign) => void,
): Promise<Campaign> {
  const { path, minutes } = values;
  const usual = path !== undefined ? RUNS_OF_A_PATH : mutation ? RUNS_OF_A_MUTATION : RUNS;
  const length = Number(values.runs ?? usual);
  const paths = Array.from({ length }, (_, index) => (path === undefined ? index : Number(path)));
  const overAt = minutes === undefined ? Infinity : performance.now() + Number(minutes) * MINUTE;
  const isOver = () => performance.now() > overAt;
  return await campaign(arena, { mutation, seed, paths, isOver, ...(onRun ? { onRun } : {}) });
}

// Said first: the database server's own clean-up at the end of a process ends it with 0.
const code = await main().catch((error: unknown) => {
  console.error(error);
  return 1;
});
// Pipes of relays that were killed may still be open.
process.exit(code);

import { parseArgs } from 'node:util';

import { campaign, openArena } from './campaign.ts';
import type { Arena, Campaign } from './campaign.ts';
import { MUTATIONS } from './mutations.ts';
import type { Mutation } from './mutations.ts';
import { RULES } from './promises/promises.ts';
import { checkSurrounded, playSurroundings, surroundingsNamed } from './surroundings/command.ts';
import { SURROUNDED_MUTATIONS } from './surroundings/mutations.ts';
import { SURROUNDINGS } from './surroundings/surroundings.ts';
import { inShort, inWords } from './words.ts';

const USAGE = `npm run chaos -- [--seed N] [--runs N] [--path P] [--mutation NAME|all]

  --seed N         play the schedules of this seed (default: a random seed)
  --runs N         play this many schedules (default: 60; with a mutation, up to 200 until it is found)
  --path P         play only schedule P of the seed, up to --runs times (default: 20)
  --mutation NAME  break the bus in one way and check that the checker finds it; "all": in every way, and then
                   check the unchanged bus. The mutations are:
                   ${MUTATIONS.map(({ name }) => name).join('\n                   ')}

npm run chaos -- --surroundings [NAME|all] [--mutation NAME|all]

  brings about hostile surroundings instead (settings, restarts, silent connections, clocks, poolers, strange rows), each
  in a database of its own, and checks that the bus keeps its promises there. They are:
                   ${SURROUNDINGS.map(({ name }) => name).join('\n                   ')}
  --mutation NAME  break the bus in one way, and check that its surrounding finds it:
                   ${SURROUNDED_MUTATIONS.map(({ name }) => name).join('\n                   ')}`;

/** Some three minutes on two cores. */
const RUNS = 60;
const RUNS_OF_A_MUTATION = 200;
const RUNS_OF_A_PATH = 20;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    surroundings: { type: 'boolean' },
    seed: { type: 'string' },
    runs: { type: 'string' },
    path: { type: 'string' },
    mutation: { type: 'string' },
    help: { type: 'boolean' },
  },
});

const seed = values.seed === undefined ? Math.trunc(Math.random() * 1_000_000_000) : Number(values.seed);

async function main(): Promise<number> {
  const isChosen = ({ name }: { name: string }) => values.mutation === 'all' || values.mutation === name;
  const chosen = MUTATIONS.filter(isChosen);
  const surrounded = SURROUNDED_MUTATIONS.filter(isChosen);
  const numbers = [values.seed, values.runs, values.path];
  const isNumeric = numbers.every((value) => value === undefined || /^\d+$/.test(value));
  const surroundings = values.surroundings ? surroundingsNamed(positionals[0] ?? 'all') : [];
  const areKnown = (values.surroundings ? surrounded : chosen).length > 0;
  const isUnknown = values.surroundings ? surroundings.length === 0 : positionals.length > 0;
  if (values.help || !isNumeric || isUnknown || (values.mutation !== undefined && !areKnown)) {
    console.log(USAGE);
    return values.help ? 0 : 2;
  }
  const arena = await openArena();
  try {
    if (values.surroundings) {
      const hasHeld =
        surrounded.length > 0
          ? await checkSurrounded(arena, surrounded)
          : await playSurroundings(arena, surroundings);
      return hasHeld ? 0 : 1;
    }
    const areFound = await checkMutations(arena, chosen);
    if (chosen.length > 0 && values.mutation !== 'all') return areFound ? 0 : 1;
    const isSound = await checkBus(arena);
    return areFound && isSound ? 0 : 1;
  } finally {
    await arena.close();
  }
}

/** Checks the unchanged bus. @returns whether it kept its promises. */
async function checkBus(arena: Arena): Promise<boolean> {
  console.log(`The unchanged bus, seed ${seed}:\n\n  runs   events    calls   faults  seconds`);
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

/** Breaks the bus in these ways. @returns whether the checker found each of them. */
async function checkMutations(arena: Arena, mutations: readonly Mutation[]): Promise<boolean> {
  if (mutations.length === 0) return true;
  console.log(`The bus with one mutation at a time, seed ${seed}:\n`);
  console.log(`  ${'mutation'.padEnd(32)}runs  seconds  promise  violation`);
  let areFound = true;
  for (const mutation of mutations) {
    const result = await play(arena, mutation);
    console.log(verdict(mutation, result));
    for (const { path, history, found } of result.others)
      console.log(
        `    run ${path} broke another promise, which does not count: ${inShort(history, found[0])}`,
      );
    areFound &&= result.fall !== null;
    if (result.fall && mutations.length === 1)
      console.log(`\n${inWords(result.fall)}\n\n${again(result.fall.path, mutation)}`);
  }
  console.log('');
  return areFound;
}

function verdict({ name }: Mutation, { runs, seconds, fall }: Campaign): string {
  const promise = fall ? RULES[fall.found[0].rule] : '–';
  const what = fall ? inShort(fall.history, fall.found[0]) : 'NOT FOUND';
  return `  ${name.padEnd(32)}${`${runs}`.padStart(4)}${seconds.toFixed(0).padStart(9)}${`${promise}`.padStart(9)}  ${what}`;
}

function again(path: number, mutation: Mutation | null): string {
  const command = `npm run chaos -- --seed ${seed} --path ${path}${mutation ? ` --mutation ${mutation.name}` : ''}`;
  return `To play this schedule again (its races can have other outcomes):\n  ${command}`;
}

async function play(
  arena: Arena,
  mutation: Mutation | null,
  onRun?: (state: Campaign) => void,
): Promise<Campaign> {
  const { path } = values;
  const usual = path !== undefined ? RUNS_OF_A_PATH : mutation ? RUNS_OF_A_MUTATION : RUNS;
  const length = Number(values.runs ?? usual);
  const paths = Array.from({ length }, (_, index) => (path === undefined ? index : Number(path)));
  return await campaign(arena, { mutation, seed, paths, ...(onRun ? { onRun } : {}) });
}

// Before the exit: the database server's own clean-up would otherwise end the process with 0.
const code = await main().catch((error: unknown) => {
  console.error(error);
  return 1;
});
// Pipes of relays that were killed may still be open.
process.exit(code);

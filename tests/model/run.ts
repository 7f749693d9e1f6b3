import { parseArgs } from 'node:util';

import { MISTAKES, OUTSIDE } from './mistakes.ts';
import { SCOPES, scopeNamed } from './scopes.ts';
import { search } from './search.ts';
import type { Search } from './search.ts';
import { inWords } from './words.ts';

const names = (all: readonly { readonly name: string }[]) =>
  all.map(({ name }) => name).join('\n                   ');

const USAGE = `npm run model -- [--scope NAME|all] [--mistake NAME|all] [--most N]

Searches every interleaving of a small bus, in a model, for one that breaks a promise; the shortest comes first.

  --scope NAME     search these bounds (default: all):
                   ${names(SCOPES.map(({ name, holds }) => ({ name: `${name}: ${holds}` })))}
  --mistake NAME   build a mistake into the bus, and print the shortest schedule that breaks a promise; "all": a
                   table of all of them:
                   ${names(MISTAKES)}
  --most N         give up after so many states (default: 20,000,000)`;

const { values } = parseArgs({
  options: {
    scope: { type: 'string' },
    mistake: { type: 'string' },
    most: { type: 'string' },
    help: { type: 'boolean' },
  },
});

const most = Number(values.most ?? 20_000_000);

/** Searches scopes of the unchanged bus. @returns whether all promises hold in all their states. */
function searchScopes(): boolean {
  const chosen = (values.scope ?? 'all') === 'all' ? SCOPES : [scopeNamed(values.scope!)];
  console.log(
    `${'scope'.padEnd(18)}${'states'.padStart(10)}${'steps'.padStart(12)}${'depth'.padStart(7)}${'seconds'.padStart(9)}  found`,
  );
  let holds = true;
  for (const scope of chosen) {
    const world = { scope, mistake: null };
    const result = search(world, most);
    console.log(`${figures(scope.name, 18, result)}  ${verdict(result)}`);
    if (result.fall) console.log(`\n${inWords(result.fall, world)}\n`);
    holds &&= result.isWhole && result.fall === null;
  }
  return holds;
}

function figures(name: string, width: number, { states, transitions, depth, seconds }: Search): string {
  const numbers = [
    [states, 10],
    [transitions, 12],
    [depth, 7],
    [seconds.toFixed(1), 9],
  ] as const;
  return name.padEnd(width) + numbers.map(([number, room]) => `${number}`.padStart(room)).join('');
}

function verdict({ isWhole, fall }: Search): string {
  if (fall) return `${fall.rule}, after ${fall.schedule.length} steps`;
  return isWhole ? 'nothing' : 'nothing yet: gave up';
}

/** Builds mistakes into the bus. @returns whether each breaks a promise that it should. */
function searchMistakes(): boolean {
  const chosen = MISTAKES.filter(({ name }) => values.mistake === 'all' || values.mistake === name);
  if (chosen.length === 0)
    throw new Error(`Unknown mistake '${values.mistake}'. See npm run model -- --help.`);
  let areFound = true;
  console.log(
    `${'mistake'.padEnd(34)}${'states'.padStart(10)}${'steps'.padStart(12)}${'depth'.padStart(7)}${'seconds'.padStart(9)}  breaks`,
  );
  for (const mistake of chosen) {
    const world = { scope: scopeNamed(values.scope ?? mistake.scope), mistake: mistake.name };
    const result = search(world, most);
    console.log(`${figures(mistake.name, 34, result)}  ${verdict(result)}`);
    if (result.fall && chosen.length === 1)
      console.log(`\n${mistake.says}, in: ${world.scope.holds}.\n\n${inWords(result.fall, world)}`);
    areFound &&= result.fall !== null && (mistake.breaks as readonly string[]).includes(result.fall.rule);
  }
  if (values.mistake === 'all')
    for (const [name, reason] of Object.entries(OUTSIDE))
      console.log(`${name.padEnd(34)}not in the model: ${reason}`);
  return areFound;
}

function main(): number {
  if (values.help || (values.most !== undefined && !/^\d+$/.test(values.most))) {
    console.log(USAGE);
    return values.help ? 0 : 2;
  }
  return (values.mistake === undefined ? searchScopes() : searchMistakes()) ? 0 : 1;
}

try {
  process.exitCode = main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}

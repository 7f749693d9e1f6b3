import { parseArgs } from 'node:util';

import { busBenchmarks } from './bus/bus.ts';
import type { BusOptions } from './bus/bus.ts';
import { benchColdStart } from './cold-start.ts';
import { benchEdge } from './edge.ts';
import { printSection } from './figures.ts';
import type { Section } from './figures.ts';
import { benchIndexing } from './indexing.ts';
import { benchLimits } from './limits.ts';
import { benchMasking } from './masking.ts';
import { benchOperators } from './operators.ts';
import { benchPackage } from './package.ts';
import { benchProcess } from './process.ts';
import { keep, show } from './record.ts';
import { benchSearch } from './search.ts';
import { benchSqlEmit } from './sql-emit.ts';
import { benchTime } from './time.ts';
import { benchTimers } from './timers.ts';
import { benchTrouble } from './trouble.ts';

const BENCHMARKS: Readonly<Record<string, (options: BusOptions) => Promise<Section>>> = {
  ...busBenchmarks,
  time: benchTime,
  edge: benchEdge,
  operators: benchOperators,
  trouble: benchTrouble,
  search: benchSearch,
  indexing: benchIndexing,
  masking: benchMasking,
  'sql-emit': benchSqlEmit,
  timers: benchTimers,
  process: benchProcess,
  limits: benchLimits,
  'cold-start': benchColdStart,
  package: benchPackage,
};

/** What belongs to a benchmark and takes so long that it can be run by itself. */
const FOLLOWED_BY: Readonly<Record<string, readonly string[]>> = { steady: ['old-snapshot'] };

const USAGE = `npm run bench -- [--only <name> …] [--quick | --show]

  --only <name>  one of ${Object.keys(BENCHMARKS).join(', ')}; repeatable.
                 steady takes a quarter of an hour and runs old-snapshot as well, which takes 25 minutes
  --quick        a tenth of the event bus's work in one round; writes nothing: to check that it runs
  --show         measures nothing: writes RESULTS.md, figures.svg and the README's table from figures.json`;

/** Measures, prints and keeps each section. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      quick: { type: 'boolean', default: false },
      show: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) return console.log(USAGE);
  if (values.show) return show();
  const names = values.only ?? Object.keys(BENCHMARKS);
  const unknown = names.find((name) => !Object.hasOwn(BENCHMARKS, name));
  if (unknown !== undefined) throw new Error(`unknown benchmark ${unknown}\n\n${USAGE}`);
  for (const name of new Set(names.flatMap((name) => [name, ...(FOLLOWED_BY[name] ?? [])]))) {
    const section = await BENCHMARKS[name]!({ quick: values.quick });
    printSection(section);
    if (!values.quick) keep(name, section, Object.keys(BENCHMARKS));
  }
}

try {
  await main();
  process.exit();
} catch (error) {
  if (!(error instanceof Error)) throw error;
  console.error(error.message);
  process.exit(1);
}

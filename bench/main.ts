import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';

import { busBenchmarks } from './bus/bus.ts';
import type { BusOptions } from './bus/bus.ts';
import { benchColdStart } from './cold-start.ts';
import { benchEdge } from './edge.ts';
import { printSection } from './figures.ts';
import type { Section } from './figures.ts';
import { benchOperators } from './operators.ts';
import { benchTime } from './time.ts';

const BENCHMARKS: Readonly<Record<string, (options: BusOptions) => Promise<Section>>> = {
  ...busBenchmarks,
  time: benchTime,
  edge: benchEdge,
  operators: benchOperators,
  'cold-start': benchColdStart,
};

const RESULTS = new URL('RESULTS.md', import.meta.url);
const INTRODUCTION = `# Figures

What \`npm run bench\` printed; \`npm run bench -- --only <name>\` measures again what stands in one section.
`;

const USAGE = `npm run bench -- [--only <name> …] [--quick]

  --only <name>  one of ${Object.keys(BENCHMARKS).join(', ')}; may be given again
  --quick        a tenth of the bus's work in one round, and nothing written: to see that it runs`;

/** Measures, prints, and writes each section into RESULTS.md in the place of the one of the same name. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean' },
    },
  });
  if (values.help) return console.log(USAGE);
  const names = values.only ?? Object.keys(BENCHMARKS);
  const unknown = names.find((name) => !Object.hasOwn(BENCHMARKS, name));
  if (unknown !== undefined) throw new Error(`there is no benchmark ${unknown}\n\n${USAGE}`);
  for (const name of names) {
    const section = await BENCHMARKS[name]!({ quick: values.quick });
    printSection(section);
    if (!values.quick) keep(name, section);
  }
}

function keep(name: string, { title, rows, notes = [] }: Section): void {
  const today = new Date().toISOString().slice(0, 10);
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.versions.node}, ${process.platform}`;
  const table = rows.map(({ what, figure, goal }) => `| ${what} | ${figure} | ${goal} |`).join('\n');
  const written = `## ${title}

\`npm run bench -- --only ${name}\`, ${today}: ${machine}.

| What | Figure | To reach |
|---|---|---|
${table}

${notes.join(' ')}
`;
  const [, ...sections] = readFileSync(RESULTS, 'utf8').split(/^(?=## )/m);
  const byName = new Map(sections.map((section) => [/--only ([\w-]+)/.exec(section)?.[1], section]));
  byName.set(name, written);
  const inOrder = Object.keys(BENCHMARKS).flatMap((known) => byName.get(known)?.trimEnd() ?? []);
  writeFileSync(RESULTS, `${[INTRODUCTION.trimEnd(), ...inOrder].join('\n\n')}\n`);
}

try {
  await main();
  process.exit();
} catch (error) {
  if (!(error instanceof Error)) throw error;
  console.error(error.message);
  process.exit(1);
}

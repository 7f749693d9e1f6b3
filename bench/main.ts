import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';

import { benchEdge } from './edge.ts';
import { printSection } from './figures.ts';
import type { Section } from './figures.ts';
import { benchOperators } from './operators.ts';

const BENCHMARKS: Readonly<Record<string, () => Promise<Section>>> = {
  edge: benchEdge,
  operators: benchOperators,
};

const RESULTS = new URL('RESULTS.md', import.meta.url);
const INTRODUCTION = `# Figures

What \`npm run bench\` printed; \`npm run bench -- --only <name>\` measures again what stands in one section.
`;

const USAGE = `npm run bench -- [--only ${Object.keys(BENCHMARKS).join(' | ')}]`;

/** Measures, prints, and writes each section into RESULTS.md in the place of the one of the same name. */
async function main(): Promise<void> {
  const { values } = parseArgs({ options: { only: { type: 'string' }, help: { type: 'boolean' } } });
  if (values.help) return console.log(USAGE);
  const names = values.only === undefined ? Object.keys(BENCHMARKS) : [values.only];
  for (const name of names) {
    const measure = BENCHMARKS[name];
    if (!measure) throw new Error(`there is no benchmark ${name}\n\n${USAGE}`);
    const section = await measure();
    printSection(section);
    keep(name, section);
  }
}

function keep(name: string, { title, rows }: Section): void {
  const today = new Date().toISOString().slice(0, 10);
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.versions.node}, ${process.platform}`;
  const table = rows.map(({ what, figure, goal }) => `| ${what} | ${figure} | ${goal} |`).join('\n');
  const written = `## ${title}

\`npm run bench -- --only ${name}\`, ${today}: ${machine}.

| What | Figure | To reach |
|---|---|---|
${table}
`;
  const [, ...sections] = readFileSync(RESULTS, 'utf8').split(/^(?=## )/m);
  const kept = sections
    .filter((section) => !section.startsWith(`## ${title}\n`))
    .map((section) => section.trimEnd());
  writeFileSync(RESULTS, `${[INTRODUCTION.trimEnd(), ...kept, written.trimEnd()].join('\n\n')}\n`);
}

try {
  await main();
  process.exit();
} catch (error) {
  if (!(error instanceof Error)) throw error;
  console.error(error.message);
  process.exit(1);
}

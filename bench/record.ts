import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

import { chart } from './chart.ts';
import type { Figures, Section } from './figures.ts';
import { readmeTable } from './readme-table.ts';

// figures.json holds what was measured last of each section. All that shows figures is made of it: RESULTS.md, the chart,
// and the table in the README.

const RECORD = new URL('figures.json', import.meta.url);

/** Keeps what a section found in the place of what it found before. @param names of all sections, in their order. */
export function keep(name: string, section: Section, names: readonly string[]): void {
  const on = new Date().toISOString().slice(0, 10);
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.versions.node}, ${process.platform}`;
  const figures = { ...readFigures(), [name]: { on, machine, ...section } };
  const inOrder = names.flatMap((known) => (figures[known] ? [[known, figures[known]] as const] : []));
  writeFileSync(RECORD, `${JSON.stringify(Object.fromEntries(inOrder), null, 2)}\n`);
  show();
}

export function readFigures(): Figures {
  return JSON.parse(readFileSync(RECORD, 'utf8')) as Figures;
}

/** Writes all that shows figures again. */
export function show(): void {
  for (const [file, text] of shown(readFigures())) writeFileSync(file, text);
}

/** The files that show figures, and what has to stand in them. */
export function shown(figures: Figures): ReadonlyMap<URL, string> {
  const readme = new URL('../README.md', import.meta.url);
  return new Map([
    [new URL('RESULTS.md', import.meta.url), results(figures)],
    [new URL('figures.svg', import.meta.url), chart(figures)],
    [readme, withTable(readFileSync(readme, 'utf8'), readmeTable(figures))],
  ]);
}

function withTable(readme: string, table: string): string {
  return readme.replace(/(?<=<!-- figures -->\n)[^]*?(?=<!-- end -->)/, () => `\n${table}\n\n`);
}

function results(figures: Figures): string {
  const sections = Object.entries(figures).map(([name, { title, on, machine, rows, notes = [] }]) => {
    const table = rows.map(({ what, figure, goal }) => `| ${what} | ${figure} | ${goal} |`).join('\n');
    return `## ${title}

\`npm run bench -- --only ${name}\`, ${on}: ${machine}.

| What | Figure | To reach |
|---|---|---|
${table}

${notes.join(' ')}`.trimEnd();
  });
  return `${[INTRODUCTION, ...sections].join('\n\n')}\n`;
}

const INTRODUCTION = `# Figures

What \`npm run bench\` printed; \`npm run bench -- --only <name>\` measures again what stands in one section. As numbers:
[\`figures.json\`](figures.json).

![Latency by load, drain and keys, beside graphile-worker and pg-boss](figures.svg)`;

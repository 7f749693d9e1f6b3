import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

import { chart } from './chart.ts';
import type { Figures, Section } from './figures.ts';
import { readmeTable } from './readme-table.ts';

// figures.json holds the last measurement of each section. RESULTS.md, the chart and the README's table are made from it.

const RECORD = new URL('figures.json', import.meta.url);

/** Replaces a section's last measurement. @param names of all sections, in their order. */
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

/** Writes every file that shows figures. */
export function show(): void {
  for (const [file, text] of shown(readFigures())) writeFileSync(file, text);
}

/** The files that show figures, each with its text. */
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

| What | Figure | Goal |
|---|---|---|
${table}

${notes.join(' ')}`.trimEnd();
  });
  return `${[INTRODUCTION, ...sections].join('\n\n')}\n`;
}

const INTRODUCTION = `# Figures

Every figure that \`npm run bench\` measured last, made from [\`figures.json\`](figures.json); \`npm run bench -- --only <name>\`
measures one section again. "Ours" is Postbud. A figure is a median, its range in brackets. p50 and p99 are the times that
50 % and 99 % of the deliveries stay within. Commit to handler: from the producer’s commit to the call of the subscriber’s
handler. Kicked: the producer’s process wakes the relay; notified: Postgres does (\`LISTEN\`). A lane is a queue that is
delivered in order, a turn one look of the relay for work.

![Latency by load, a backlog drained, and the same with ordering keys, beside graphile-worker and pg-boss](figures.svg)`;

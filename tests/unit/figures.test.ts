import { readFileSync } from 'node:fs';

import { expect, test } from 'vitest';

import { chart } from '../../bench/chart.ts';
import { CONTENDERS, DISTANT_LOADS, LOADS, keyFigures, loadFigure } from '../../bench/figure-names.ts';
import { measured } from '../../bench/figures.ts';
import type { Figure, Figures } from '../../bench/figures.ts';
import { readmeTable } from '../../bench/readme-table.ts';
import { readFigures, shown } from '../../bench/record.ts';

const recorded = (rows: readonly Figure[]) => ({
  title: 'a section',
  on: '2026-11-22',
  machine: 'a machine',
  rows,
});

/** A figure whose rounds found 7/8, 1 and 9/8 of this. */
const figure = (what: string, median: number) =>
  measured(what, { median, least: (median * 7) / 8, most: (median * 9) / 8 }, '');

const ALL_LOADS = [...LOADS, ...DISTANT_LOADS];

const everything: Figures = {
  steady: recorded(
    ALL_LOADS.flatMap((load) =>
      CONTENDERS.flatMap((name, index) => [
        figure(loadFigure(load, 'p50', name), 1.5 + index),
        figure(loadFigure(load, 'p99', name), load.perSecond + index),
      ]),
    ),
  ),
  drain: recorded([figure('drain: ours, in order', 59_701)]),
  keys: recorded(Object.values(keyFigures).map((what, index) => figure(what, 10_000 * (index + 1)))),
};

test.for(
  Array.from(shown(readFigures()), ([file, text]) => [file.pathname.split('/').at(-1)!, file, text] as const),
)('%s shows what was measured last (else run: npm run bench -- --show)', ([, file, text]) => {
  expect(readFileSync(file, 'utf8') === text).toBe(true);
});

test('The chart writes each figure beside its mark and draws its range.', () => {
  const svg = chart(everything);
  const written = Array.from(svg.matchAll(/class="value[^>]*>([^<]+)</g), ([, value]) => value);
  const latencies = ALL_LOADS.flatMap(({ perSecond }) =>
    [0, 1, 2].flatMap((index) => [`${1.5 + index}`, `${perSecond + index}`]),
  );
  expect(written).toEqual([...latencies, '59,701', '10,000', '20,000', '30,000', '40,000', '50,000']);
  expect(svg.match(/class="range" d="M\d/g)).toHaveLength(1 + 5 + 1);
  expect(svg).not.toContain('not measured yet');
});

test('The chart is readable in light and in dark, and runs nothing.', () => {
  const svg = chart(everything);
  expect(svg).toContain('@media (prefers-color-scheme: dark)');
  expect(svg).toContain('class="paper"');
  expect(svg).not.toMatch(/<script|\son\w+=|href/);
});

test('The chart says what has not been measured yet.', () => {
  const svg = chart({ drain: everything['drain']! });
  expect(svg.match(/not measured yet/g)).toHaveLength(3);
  expect(svg).not.toContain('NaN');
});

test("The README's table has a dash where nothing was measured.", () => {
  const table = readmeTable(everything);
  expect(table).toContain('| 1.5 / 50 | 2.5 / 51 | 3.5 / 52 |');
  expect(table).toContain('strict order per lane, deliveries a second | 59,701 | – | – |');
});

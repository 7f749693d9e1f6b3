import { COMMIT_MS, DISTANT_LOADS, LOADS, ROUND_TRIP_MS, keyFigures, loadFigure } from './figure-names.ts';
import type { ContenderName, Load } from './figure-names.ts';
import { number, spreadOfFigure } from './figures.ts';
import type { Figures } from './figures.ts';

/** A row of everyday figures from one section; several in one column are joined by a slash. */
interface Row {
  readonly what: string;
  readonly section: string;
  readonly ours: readonly string[];
  readonly graphile?: readonly string[];
  readonly boss?: readonly string[];
}

/** Names the same figures for each contender. */
const each = (name: (contender: ContenderName) => readonly string[]) => ({
  ours: name('ours'),
  graphile: name('graphile-worker'),
  boss: name('pg-boss'),
});

const atLoad = (load: Load) =>
  each((name) => (['p50', 'p99'] as const).map((share) => loadFigure(load, share, name)));

function added({ isFar, commitsSlowly }: Load): string {
  const what = [
    ...(isFar ? [`${ROUND_TRIP_MS} ms added to each round trip`] : []),
    ...(commitsSlowly ? [`${COMMIT_MS} ms added to each commit`] : []),
  ];
  return what.join(' and ');
}

const ROWS: readonly Row[] = [
  ...LOADS.map((load) => ({
    what: `commit to handler at ${load.perSecond} events a second, p50 / p99, ms`,
    section: 'steady',
    ...atLoad(load),
  })),
  ...DISTANT_LOADS.filter(({ isFar }) => isFar).map((load) => ({
    what: `the same at ${load.perSecond} a second, with ${added(load)}`,
    section: 'steady',
    ...atLoad(load),
  })),
  {
    what: '60 topics, 300 events a second, p50 / p99, ms',
    section: 'steady',
    ...each((name) => [`60 topics at 300/s, p50: ${name}`, `60 topics at 300/s, p99: ${name}`]),
  },
  {
    what: 'the same with eight processes instead of one, p50, ms',
    section: 'steady',
    ours: ['60 topics at 300/s, p50: ours from 8 processes'],
  },
  {
    what: 'a backlog drained in strict order per lane, deliveries a second',
    section: 'drain',
    ours: ['drain: ours, in order'],
    graphile: ['drain: graphile-worker, queue_name per lane'],
    boss: ['drain: pg-boss, key_strict_fifo'],
  },
  {
    what: 'a backlog drained, no order promised',
    section: 'drain',
    ours: [],
    graphile: ['drain: graphile-worker, no order'],
    boss: ['drain: pg-boss, no order'],
  },
  {
    what: 'a backlog drained, each of 2,000 keys in order',
    section: 'keys',
    ours: [keyFigures.some],
    boss: [keyFigures.somePeer],
  },
  {
    what: "emit in the producer's transaction, 16 producers, events a second",
    section: 'emit',
    ...each((name) => [`emit, 16 producers: ${name}`]),
  },
];

/** The README's table in Markdown, of what has been measured. A dash: it does not exist. */
export function readmeTable(figures: Figures): string {
  const cell = (section: string, names: readonly string[] = []) =>
    names
      .flatMap((what) => {
        const spread = spreadOfFigure(figures, section, what);
        return spread ? number(spread.median) : [];
      })
      .join(' / ') || '–';
  return [
    '| | Postbud | graphile-worker | pg-boss |',
    '|---|---|---|---|',
    ...ROWS.flatMap(({ what, section, ours, graphile, boss }) => {
      const cells = [cell(section, ours), cell(section, graphile), cell(section, boss)];
      return cells.some((found) => found !== '–') ? [`| ${what} | ${cells.join(' | ')} |`] : [];
    }),
  ].join('\n');
}

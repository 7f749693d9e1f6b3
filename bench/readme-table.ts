import { LOADS, keyFigures, loadFigure } from './figure-names.ts';
import type { ContenderName } from './figure-names.ts';
import { number, spreadOfFigure } from './figures.ts';
import type { Figures } from './figures.ts';

/** A row: which figures of a section stand in the columns; several in one with a stroke between them. */
interface Row {
  readonly what: string;
  readonly section: string;
  readonly ours: readonly string[];
  readonly graphile?: readonly string[];
  readonly boss?: readonly string[];
}

/** The same figure of each contender. */
const each = (name: (contender: ContenderName) => readonly string[]) => ({
  ours: name('ours'),
  graphile: name('graphile-worker'),
  boss: name('pg-boss'),
});

const atLoad = (perSecond: number, isFar: boolean) =>
  each((name) => (['p50', 'p99'] as const).map((share) => loadFigure(perSecond, share, name, { isFar })));

const ROWS: readonly Row[] = [
  ...LOADS.map((perSecond) => ({
    what: `commit to handler at ${perSecond} events a second, p50 / p99, ms`,
    section: 'steady',
    ...atLoad(perSecond, false),
  })),
  {
    what: 'the same at 200 a second with 5 ms added to each round trip',
    section: 'steady',
    ...atLoad(200, true),
  },
  {
    what: '60 topics, everything attached, 300 events a second, p50 / p99, ms',
    section: 'steady',
    ...each((name) => [`60 topics at 300/s, p50: ${name}`, `60 topics at 300/s, p99: ${name}`]),
  },
  {
    what: 'the highest rate of the same that was kept up with, events a second',
    section: 'steady',
    ...each((name) => [`60 topics, the highest rate kept up with: ${name}`]),
  },
  {
    what: 'the same at 300 a second from one process and from eight, p50, ms',
    section: 'steady',
    ours: [
      '60 topics at 300/s, p50: ours from one process',
      '60 topics at 300/s, p50: ours from 8 processes',
    ],
  },
  {
    what: 'a burst of 18,000 deliveries on connections that did small rounds, deliveries a second',
    section: 'burst',
    ours: ['burst on connections that did 40 small rounds before'],
  },
  {
    what: 'drain, each of 2,000 keys in order, deliveries a second',
    section: 'keys',
    ours: [keyFigures.some],
    boss: [keyFigures.somePeer],
  },
  {
    what: 'drain, a key each',
    section: 'keys',
    ours: [keyFigures.each],
    boss: [keyFigures.eachPeer],
  },
  {
    what: 'a subscriber elsewhere that answers after 50 ms, one lane: one by one / in batches of 100',
    section: 'batches',
    ours: [
      'one lane to a subscriber that answers after 50 ms, one by one',
      'one lane to a subscriber that answers after 50 ms, in batches',
    ],
  },
  {
    what: 'drain, strict order per lane',
    section: 'drain',
    ours: ['drain: ours, in order'],
    graphile: ['drain: graphile-worker, queue_name per lane'],
    boss: ['drain: pg-boss, key_strict_fifo'],
  },
  {
    what: 'drain, no order promised',
    section: 'drain',
    ours: [],
    graphile: ['drain: graphile-worker, no order'],
    boss: ['drain: pg-boss, no order'],
  },
  {
    what: 'drain in order, 5 ms added to each round trip',
    section: 'round-trips',
    ours: ['drain, 5 ms round trips: ours, in order'],
    graphile: ['drain, 5 ms round trips: graphile-worker, queue_name per lane'],
    boss: ['drain, 5 ms round trips: pg-boss, key_strict_fifo'],
  },
  {
    what: 'drain, each handler writing in the transaction of its delivery',
    section: 'transactional',
    ours: ['drain with transactional handlers of one write each: ours'],
  },
  {
    what: "emit with fan-out 3 in the producer's transaction, 16 producers, events a second",
    section: 'emit',
    ...each((name) => [`emit, 16 producers: ${name}`]),
  },
];

/** The table of the README, in Markdown. A dash stands for what does not exist, or has not been measured yet. */
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
    ...ROWS.map(
      ({ what, section, ours, graphile, boss }) =>
        `| ${what} | ${cell(section, ours)} | ${cell(section, graphile)} | ${cell(section, boss)} |`,
    ),
  ].join('\n');
}

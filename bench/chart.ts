import {
  COMMIT_MS,
  CONTENDERS,
  DISTANT_LOADS,
  DISTANT_PER_SECOND,
  LOADS,
  ROUND_TRIP_MS,
  keyFigures,
  loadFigure,
} from './figure-names.ts';
import type { ContenderName, Load, Share } from './figure-names.ts';
import { spreadOfFigure } from './figures.ts';
import type { Figures, Spread } from './figures.ts';

// figures.svg: four panels of the most telling figures. RESULTS.md shows it as an image, so it has its own background,
// colours for light and dark, and no script.

const WIDTH = 880;
const HEIGHT = 672;
const PANEL = { width: 420, height: 270 };
const COLUMNS = [16, 444] as const;
const TOPS = [84, 362] as const;

const CALLED = { ours: 'Postbud', 'graphile-worker': 'graphile-worker', 'pg-boss': 'pg-boss' } as const;

export function chart(figures: Figures): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-labelledby="title description">
<title id="title">Postbud beside graphile-worker and pg-boss</title>
<desc id="description">Latency from commit to handler at three loads, and with time added to every round trip, to every commit and to both; deliveries a second of a drained backlog; and the same with ordering keys.</desc>
<style>${STYLE}</style>
<rect class="paper" x="0.5" y="0.5" width="${WIDTH - 1}" height="${HEIGHT - 1}" rx="8"/>
${legend()}
${latencyPanels(figures)}
${barPanels(figures)}
${footer(figures)}
</svg>
`;
}

const STYLE = `
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.heading { font-size: 15px; font-weight: 600; }
.muted { fill: #59636e; }
.value { font-size: 11px; font-variant-numeric: tabular-nums; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
.tick { font-size: 11px; }
.end { text-anchor: end; }
.middle { text-anchor: middle; }
.paper { fill: #ffffff; stroke: #d1d9e0; }
.grid { stroke: #e3e8ed; }
.axis { stroke: #818b98; }
.range { stroke: #1f2328; stroke-width: 1.5; fill: none; }
.ours { --colour: #0969da; }
.graphile-worker { --colour: #b35900; }
.pg-boss { --colour: #8250df; }
.full { fill: var(--colour); stroke: var(--colour); stroke-width: 1.5; }
.hollow { fill: #ffffff; stroke: var(--colour); stroke-width: 1.75; }
.stem { stroke: var(--colour); stroke-width: 1.25; opacity: 0.45; }
.spread { stroke: var(--colour); stroke-width: 6; opacity: 0.28; stroke-linecap: round; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .muted { fill: #9198a1; }
  .value { stroke: #0d1117; }
  .paper { fill: #0d1117; stroke: #3d444d; }
  .grid { stroke: #252b33; }
  .axis { stroke: #656c76; }
  .range { stroke: #f0f6fc; }
  .ours { --colour: #4493f8; }
  .graphile-worker { --colour: #e8963d; }
  .pg-boss { --colour: #b083f0; }
  .hollow { fill: #0d1117; }
}
`;

function legend(): string {
  const at = { ours: 30, 'graphile-worker': 132, 'pg-boss': 298 } as const;
  const names = CONTENDERS.map(
    (name) => `${mark(name, at[name], 28, 'full')}${text(at[name] + 12, 32, CALLED[name], 'heading')}`,
  );
  return `${names.join('\n')}
${mark('ours', 30, 56, 'full')}${text(42, 60, 'p50', 'muted')}
${mark('ours', 84, 56, 'hollow')}${text(96, 60, 'p99', 'muted')}
<g class="ours"><line class="spread" x1="138" x2="152" y1="56" y2="56"/></g>${range(164, 184, 56)}
${text(194, 60, 'range of the rounds; figures are medians', 'muted')}`;
}

/** Each contender has a shape as well as a colour. */
function mark(name: ContenderName, x: number, y: number, look: 'full' | 'hollow'): string {
  const shapes = {
    ours: `<circle cx="${x}" cy="${y}" r="4.5" class="${look}"/>`,
    'graphile-worker': `<rect x="${x - 4}" y="${y - 4}" width="8" height="8" class="${look}"/>`,
    'pg-boss': `<path d="M${x} ${y - 5.5}L${x + 5.5} ${y}L${x} ${y + 5.5}L${x - 5.5} ${y}Z" class="${look}"/>`,
  };
  return `<g class="${name}">${shapes[name]}</g>`;
}

/** One column of a panel. */
interface Column {
  readonly label: string;
  readonly load: Load;
}

interface LatencyPanel {
  readonly title: string;
  readonly columns: readonly Column[];
  /** What the columns have in common. */
  readonly below: string;
}

const LATENCY_PANELS: readonly LatencyPanel[] = [
  {
    title: 'Commit to handler',
    columns: LOADS.map((load) => ({ label: `${load.perSecond}/s`, load })),
    below: 'events a second, one subscription',
  },
  {
    title: 'The same with a distant database',
    columns: DISTANT_LOADS.map((load) => ({ label: added(load), load })),
    below: `added, ${DISTANT_PER_SECOND} events a second`,
  },
];

function added({ isFar, commitsSlowly }: Load): string {
  if (isFar && commitsSlowly) return 'both';
  return isFar ? `${ROUND_TRIP_MS} ms a round trip` : `${COMMIT_MS} ms a commit`;
}

interface Latency {
  readonly name: ContenderName;
  /** Place of its column. */
  readonly column: number;
  readonly p50: Spread;
  readonly p99: Spread;
}

/** Draws both panels with one scale, so that they compare. */
function latencyPanels(figures: Figures): string {
  const found = LATENCY_PANELS.map(({ columns }) => latencies(figures, columns));
  const values = found.flat().flatMap(({ p50, p99 }) => [p50.least, p99.most]);
  const domain = { least: Math.min(...values, 5), most: Math.max(...values, 10) };
  return LATENCY_PANELS.map((panel, index) =>
    latencyPanel(COLUMNS[index]!, panel, found[index]!, domain),
  ).join('\n');
}

function latencies(figures: Figures, columns: readonly Column[]): Latency[] {
  return columns.flatMap(({ load }, column) =>
    CONTENDERS.flatMap((name) => {
      const of = (share: Share) => spreadOfFigure(figures, 'steady', loadFigure(load, share, name));
      const p50 = of('p50');
      const p99 = of('p99');
      return p50 && p99 ? { name, column, p50, p99 } : [];
    }),
  );
}

function latencyPanel(
  left: number,
  { title, columns, below }: LatencyPanel,
  found: readonly Latency[],
  domain: { readonly least: number; readonly most: number },
): string {
  const [top] = TOPS;
  const plot = {
    left: left + 46,
    right: left + PANEL.width - 8,
    top: top + 50,
    bottom: top + PANEL.height - 48,
  };
  const length = Math.log(domain.most / domain.least);
  // Leaves room below and above for the values.
  const y = (value: number) =>
    round(plot.bottom - 26 - (Math.log(value / domain.least) / length) * (plot.bottom - plot.top - 40));
  const steps = domain.most > 1000 * domain.least ? [1] : [1, 2, 5];
  const ticks = [-1, 0, 1, 2, 3, 4]
    .flatMap((power) => steps.map((step) => step * 10 ** power))
    .filter((tick) => y(tick) < plot.bottom - 4 && y(tick) >= plot.top);
  const grid = ticks.map(
    (tick) =>
      `<line class="grid" x1="${plot.left}" x2="${plot.right}" y1="${y(tick)}" y2="${y(tick)}"/>${text(plot.left - 8, y(tick) + 4, tick.toLocaleString('en'), 'muted end')}`,
  );
  const width = (plot.right - plot.left) / columns.length;
  const middle = (column: number) => plot.left + width * (column + 0.5);
  const labels = columns.map(({ label }, column) => text(middle(column), plot.bottom + 18, label, 'middle'));
  const marks = found.map(({ name, column, p50, p99 }) => {
    const x = round(middle(column) + (CONTENDERS.indexOf(name) - 1) * (width / 3.3));
    const band = ({ least, most }: Spread) =>
      `<line class="spread" x1="${x}" x2="${x}" y1="${y(least)}" y2="${y(most)}"/>`;
    return `<g class="${name}"><line class="stem" x1="${x}" x2="${x}" y1="${y(p50.median)}" y2="${y(p99.median)}"/>${band(p50)}${band(p99)}</g>
${mark(name, x, y(p50.median), 'full')}${mark(name, x, y(p99.median), 'hollow')}
${text(x, y(p50.least) + 18, short(p50.median), 'value middle')}${text(x, y(p99.most) - 10, short(p99.median), 'value middle')}`;
  });
  return `${text(left + 8, top + 16, title, 'heading')}
${text(left + 8, top + 35, 'milliseconds, log scale', 'muted')}
${grid.join('\n')}
<line class="axis" x1="${plot.left}" x2="${plot.right}" y1="${plot.bottom}" y2="${plot.bottom}"/>
${labels.join('')}
${text((plot.left + plot.right) / 2, plot.bottom + 37, below, 'muted middle')}
${marks.join('\n')}${found.length > 0 ? '' : missing(plot)}`;
}

interface Bar {
  readonly name: ContenderName;
  readonly what: string;
  readonly spread: Spread | undefined;
}

/** Draws both panels with one scale too. */
function barPanels(figures: Figures): string {
  const bar = (name: ContenderName, what: string, section: string, figure: string): Bar => ({
    name,
    what: `${CALLED[name]}, ${what}`,
    spread: spreadOfFigure(figures, section, figure),
  });
  const drained = [
    bar('ours', 'in order', 'drain', 'drain: ours, in order'),
    bar('graphile-worker', 'in order', 'drain', 'drain: graphile-worker, queue_name per lane'),
    bar('pg-boss', 'in order', 'drain', 'drain: pg-boss, key_strict_fifo'),
    bar('graphile-worker', 'no order', 'drain', 'drain: graphile-worker, no order'),
    bar('pg-boss', 'no order', 'drain', 'drain: pg-boss, no order'),
  ];
  const keyed = [
    bar('ours', 'no key', 'keys', keyFigures.none),
    bar('ours', '2,000 keys', 'keys', keyFigures.some),
    bar('ours', 'a key per event', 'keys', keyFigures.each),
    bar('pg-boss', '2,000 keys', 'keys', keyFigures.somePeer),
    bar('pg-boss', 'a key per event', 'keys', keyFigures.eachPeer),
  ];
  const largest = Math.max(...[...drained, ...keyed].map(({ spread }) => spread?.most ?? 0), 1000);
  return `${barPanel(COLUMNS[0], ['A backlog, drained', 'events for three subscribers each, without keys'], drained, largest)}
${barPanel(COLUMNS[1], ['The same with ordering keys', 'each key in order'], keyed, largest)}`;
}

function barPanel(
  left: number,
  [title, remark]: readonly [title: string, remark: string],
  bars: readonly Bar[],
  largest: number,
): string {
  const [, top] = TOPS;
  const plot = {
    left: left + 176,
    right: left + PANEL.width - 56,
    top: top + 50,
    bottom: top + PANEL.height - 48,
  };
  const step = [0.5, 1, 2, 5, 10]
    .map((factor) => factor * 10 ** Math.floor(Math.log10(largest)))
    .find((step) => largest / step <= 4)!;
  const x = (value: number) => round(plot.left + (value / largest) * (plot.right - plot.left));
  const ticks = Array.from({ length: Math.floor(largest / step) + 1 }, (_, index) => index * step);
  const grid = ticks.map(
    (tick) =>
      `<line class="${tick === 0 ? 'axis' : 'grid'}" x1="${x(tick)}" x2="${x(tick)}" y1="${plot.top}" y2="${plot.bottom}"/>${text(x(tick), plot.bottom + 18, tick.toLocaleString('en'), 'muted tick middle')}`,
  );
  const pitch = (plot.bottom - plot.top) / bars.length;
  const drawn = bars.map(({ name, what, spread }, index) => {
    const y = round(plot.top + pitch * (index + 0.5));
    const label = text(plot.left - 10, y + 4, what, 'end');
    if (!spread) return label;
    const width = Math.max(1, x(spread.median) - plot.left);
    return `${label}<g class="${name}"><rect class="full" x="${plot.left}" y="${y - 9}" width="${round(width)}" height="18"/></g>
${range(x(spread.least), x(spread.most), y)}
${text(x(spread.most) + 8, y + 4, Math.round(spread.median).toLocaleString('en'), 'value')}`;
  });
  return `${text(left + 8, top + 16, title, 'heading')}
${text(left + 8, top + 35, remark, 'muted')}
${grid.join('\n')}
${text((plot.left + plot.right) / 2, plot.bottom + 37, 'deliveries a second', 'muted middle')}
${drawn.join('\n')}${bars.some(({ spread }) => spread) ? '' : missing(plot)}`;
}

/** Draws a whisker. */
function range(least: number, most: number, y: number): string {
  if (most - least < 3) return '';
  return `<path class="range" d="M${least} ${y - 4}V${y + 4}M${least} ${y}H${most}M${most} ${y - 4}V${y + 4}"/>`;
}

function missing({
  left,
  right,
  top,
  bottom,
}: Readonly<Record<'left' | 'right' | 'top' | 'bottom', number>>) {
  return text((left + right) / 2, (top + bottom) / 2, 'not measured yet', 'muted middle');
}

function footer(figures: Figures): string {
  const measured = ['steady', 'drain', 'keys'].flatMap((name) => figures[name] ?? []);
  const newest = measured.toSorted((one, other) => one.on.localeCompare(other.on)).at(-1);
  if (!newest) return '';
  return text(
    24,
    HEIGHT - 18,
    `npm run bench, ${newest.on}: ${newest.machine}; all with default durability`,
    'muted',
  );
}

function text(x: number, y: number, words: string, looks: string): string {
  const escaped = words.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<text x="${round(x)}" y="${round(y)}" class="${looks}">${escaped}</text>`;
}

const short = (ms: number) =>
  ms.toLocaleString('en', { maximumFractionDigits: ms < 10 ? 1 : 0, minimumFractionDigits: ms < 10 ? 1 : 0 });

const round = (value: number) => Math.round(value * 10) / 10;

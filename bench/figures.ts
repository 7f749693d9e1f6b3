/** The result of a benchmark: for the terminal, and for `figures.json`, from which the tables and the chart are made. */
export interface Section {
  readonly title: string;
  readonly rows: readonly Figure[];
  /** The conditions, in sentences. */
  readonly notes?: readonly string[];
}

export interface Figure {
  readonly what: string;
  readonly figure: string;
  /** The goal, and whether it was reached. Empty: no goal. */
  readonly goal: string;
  /** The figure as numbers, for the chart and the README's table. */
  readonly spread?: Spread;
}

/** The median and the range of several rounds. */
export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

/** The result of one section, with its date and machine. */
interface Recorded extends Section {
  /** YYYY-MM-DD. */
  readonly on: string;
  readonly machine: string;
}

/** The last measurement of each section, by its name. */
export type Figures = Readonly<Record<string, Recorded>>;

/** Finds a figure. @returns undefined for one that has not been measured yet. */
export function spreadOfFigure(figures: Figures, section: string, what: string): Spread | undefined {
  return figures[section]?.rows.find((row) => row.what === what)?.spread;
}

export async function timed(run: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await run();
  return performance.now() - startedAt;
}

/** Finds a quantile. @param share 0.5 is the median. */
export function quantile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}

export function spreadOf(values: readonly number[]): Spread {
  const exact = { median: quantile(values, 0.5), least: Math.min(...values), most: Math.max(...values) };
  return { median: precise(exact.median), least: precise(exact.least), most: precise(exact.most) };
}

/** No measurement has more digits. */
const precise = (value: number) => Number(value.toPrecision(5));

export const ms = (value: number) => `${value.toFixed(value < 100 ? 2 : 0)} ms`;

export const number = (value: number) =>
  value.toLocaleString('en', { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 });

/** A figure measured in rounds: its median with its range. */
export function measured(what: string, spread: Spread, unit: string): Figure {
  const { median, least, most } = spread;
  return { what, figure: `${number(median)}${unit} [${number(least)}–${number(most)}]`, goal: '', spread };
}

/** A ratio of two figures, which must be at least `least`. */
export function atLeast(what: string, ratio: number, least: number, remark = ''): Figure {
  return { what, figure: times(ratio), goal: goal(`at least ${least} ×${remark}`, ratio >= least) };
}

/** A ratio of two figures, which must be at most `most`; null: no goal. */
export function atMost(what: string, ratio: number, most: number | null): Figure {
  return {
    what,
    figure: times(ratio),
    goal: most === null ? '' : goal(`at most ${most} ×`, ratio <= most),
  };
}

const times = (ratio: number) => `${ratio.toFixed(2)} ×`;

export function goal(text: string, isReached: boolean): string {
  return `${text}: ${isReached ? 'reached' : 'NOT reached'}`;
}

export function printSection({ title, rows, notes = [] }: Section): void {
  const width = Math.max(...rows.map(({ what }) => what.length));
  const lines = rows.map(({ what, figure, goal }) => `${what.padEnd(width)}  ${figure.padEnd(24)}  ${goal}`);
  console.log(`\n${title}\n\n${[...lines, '', ...notes].join('\n')}\n`);
}

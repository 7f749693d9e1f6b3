/** What a benchmark found out, for the terminal and for RESULTS.md. */
export interface Section {
  readonly title: string;
  readonly rows: readonly Figure[];
  /** Under what conditions, in sentences. */
  readonly notes?: readonly string[];
}

export interface Figure {
  readonly what: string;
  readonly figure: string;
  /** What was to be reached, and whether it was. Empty: for the record. */
  readonly goal: string;
}

export async function timed(run: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await run();
  return performance.now() - startedAt;
}

/** @param share 0.5 is the median. */
export function quantile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}

export const ms = (value: number) => `${value.toFixed(value < 100 ? 2 : 0)} ms`;

export function goal(text: string, isReached: boolean): string {
  return `${text}: ${isReached ? 'reached' : 'NOT reached'}`;
}

export function printSection({ title, rows, notes = [] }: Section): void {
  const width = Math.max(...rows.map(({ what }) => what.length));
  const lines = rows.map(({ what, figure, goal }) => `${what.padEnd(width)}  ${figure.padEnd(24)}  ${goal}`);
  console.log(`\n${title}\n\n${[...lines, '', ...notes].join('\n')}\n`);
}

import { quantile } from '../figures.ts';
import type { Runtime } from './contender.ts';
import type { Server } from './server.ts';

/** What every scenario is given. */
export interface Bench {
  readonly runtime: Runtime;
  readonly server: Server;
  /** Rounds that count; one to warm up comes before them. */
  readonly rounds: number;
  /** Share of the full work, 1 or less: a quick look at whether all runs. */
  readonly scale: number;
  readonly tell: (progress: string) => void;
}

/** One of those that take turns. */
export interface Turn {
  readonly label: string;
  /** @returns what is measured, in one unit for all. */
  readonly run: () => Promise<number>;
}

/** What the rounds found. */
export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

/**
 * Runs all in turns, back and forth, so that what else the machine does falls on each alike.
 *
 * @returns by label.
 */
export async function inTurns(
  { rounds, tell }: Bench,
  turns: readonly Turn[],
): Promise<Readonly<Record<string, Spread>>> {
  const found = new Map(turns.map(({ label }) => [label, [] as number[]]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const { label, run } of round % 2 === 0 ? turns : turns.toReversed()) {
      const value = await run();
      tell(`${round === 0 ? 'warm-up' : `round ${round} of ${rounds}`}: ${label} ${number(value)}`);
      if (round > 0) found.get(label)!.push(value);
    }
  }
  return Object.fromEntries(Array.from(found, ([label, values]) => [label, spreadOf(values)]));
}

function spreadOf(values: readonly number[]): Spread {
  return { median: quantile(values, 0.5), least: Math.min(...values), most: Math.max(...values) };
}

export const number = (value: number) =>
  value.toLocaleString('en', { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 });

/** A median with its range. */
export function shown({ median, least, most }: Spread, unit: string): string {
  return `${number(median)}${unit} [${number(least)}–${number(most)}]`;
}

/** How many times as much. */
export const times = (ratio: number) => `${ratio.toFixed(2)} ×`;

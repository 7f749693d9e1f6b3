import { number, spreadOf } from '../figures.ts';
import type { Spread } from '../figures.ts';
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
export interface Turn<Measured = number> {
  readonly label: string;
  /** @returns what is measured, in one unit for all. */
  readonly run: () => Promise<Measured>;
}

/**
 * Runs all in turns, back and forth, so that what else the machine does falls on each alike.
 *
 * @returns what the rounds found, by label.
 */
export async function inTurns(
  bench: Bench,
  turns: readonly Turn[],
): Promise<Readonly<Record<string, Spread>>> {
  const found = await eachInTurns(bench, turns, number);
  return Object.fromEntries(Array.from(found, ([label, values]) => [label, spreadOf(values)]));
}

/** The same for what is more than a number. @param areWarm leaves out the round to warm up. @returns what each round found. */
export async function eachInTurns<Measured>(
  { rounds, tell }: Pick<Bench, 'rounds' | 'tell'>,
  turns: readonly Turn<Measured>[],
  inShort: (measured: Measured) => string,
  { areWarm = false }: { readonly areWarm?: boolean } = {},
): Promise<ReadonlyMap<string, readonly Measured[]>> {
  const found = new Map(turns.map(({ label }) => [label, [] as Measured[]]));
  for (let round = areWarm ? 1 : 0; round <= rounds; round += 1) {
    for (const { label, run } of round % 2 === 0 ? turns : turns.toReversed()) {
      const value = await run();
      tell(`${round === 0 ? 'warm-up' : `round ${round} of ${rounds}`}: ${label} ${inShort(value)}`);
      if (round > 0) found.get(label)!.push(value);
    }
  }
  return found;
}

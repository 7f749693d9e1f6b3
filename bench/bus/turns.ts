import { number, spreadOf } from '../figures.ts';
import type { Spread } from '../figures.ts';
import type { Runtime } from './contender.ts';
import type { Server } from './server.ts';

/** The arguments of every scenario. */
export interface Bench {
  readonly runtime: Runtime;
  readonly server: Server;
  /** Rounds that count; one to warm up precedes them. */
  readonly rounds: number;
  /** Share of the full work, 1 or less: to check quickly that everything runs. */
  readonly scale: number;
  readonly tell: (progress: string) => void;
}

/** A contender's turn. */
export interface Turn<Measured = number> {
  readonly label: string;
  /** @returns the measurement, in one unit for all. */
  readonly run: () => Promise<Measured>;
}

/**
 * Runs all in turns, back and forth, so that other work of the machine slows each alike.
 *
 * @returns the measurements, by label.
 */
export async function inTurns(
  bench: Bench,
  turns: readonly Turn[],
): Promise<Readonly<Record<string, Spread>>> {
  const found = await eachInTurns(bench, turns, number);
  return Object.fromEntries(Array.from(found, ([label, values]) => [label, spreadOf(values)]));
}

/** The same for results other than numbers. @param areWarm skips the warm-up round. @returns each round's result. */
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

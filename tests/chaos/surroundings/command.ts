import { SECOND } from '../../../lib/time.ts';
import { buildBus } from '../build.ts';
import type { Arena } from '../campaign.ts';
import { grouped } from '../reading.ts';
import { SURROUNDINGS } from './surroundings.ts';
import type { Surrounding } from './surrounding.ts';

/** So many kinds of findings of one surrounding are printed. */
const FINDINGS = 8;

/** Plays surroundings one after the other, a line for each. @returns whether the promises held in all of them. */
export async function playSurroundings(arena: Arena, chosen: readonly Surrounding[]): Promise<boolean> {
  const build = await buildBus([]);
  console.log(`  point  ${'surrounding'.padEnd(40)}seconds  what it did, and what it found`);
  let hasHeld = true;
  try {
    for (const { point, name, lacks, play } of chosen) {
      const lacking = lacks?.() ?? null;
      const beganAt = performance.now();
      const { did, broken } = lacking === null ? await play({ arena, build }) : { did: '', broken: [] };
      const seconds = ((performance.now() - beganAt) / SECOND).toFixed(0);
      const found = broken.length === 0 ? 'all promises held' : `${broken.length} BROKEN`;
      const what = lacking === null ? `${did}: ${found}` : `left out: ${lacking}`;
      console.log(`  ${`${point}`.padStart(5)}  ${name.padEnd(40)}${seconds.padStart(7)}  ${what}`);
      const kinds = grouped(broken, (one) => one.replaceAll(/\d+/g, 'n'));
      for (const alike of [...kinds.values()].slice(0, FINDINGS))
        console.log(
          `           ${alike[0]}${alike.length === 1 ? '' : ` (and ${alike.length - 1} like it)`}`,
        );
      hasHeld &&= broken.length === 0;
    }
  } finally {
    await build.remove();
  }
  return hasHeld;
}

/** @returns none when there is none of this name. */
export function surroundingsNamed(name: string): readonly Surrounding[] {
  return SURROUNDINGS.filter((one) => name === 'all' || one.name === name);
}

import { SECOND } from '../../../lib/platform/time.ts';
import { buildBus } from '../build.ts';
import type { Arena } from '../campaign.ts';
import { grouped } from '../reading.ts';
import type { SurroundedMutation } from './mutations.ts';
import type { Surrounding } from './surrounding.ts';
import { SURROUNDINGS } from './surroundings.ts';

/** So many kinds of findings of one surrounding are printed. */
const KINDS = 8;

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
      const found = broken.length === 0 ? 'all promises held' : `${broken.length} BROKEN`;
      const what = lacking === null ? `${did}: ${found}` : `left out: ${lacking}`;
      console.log(`  ${`${point}`.padStart(5)}  ${name.padEnd(40)}${secondsSince(beganAt)}  ${what}`);
      tell(broken);
      hasHeld &&= broken.length === 0;
    }
  } finally {
    await build.remove();
  }
  return hasHeld;
}

/** Breaks the bus in these ways, one at a time. @returns whether the surrounding of each has found it. */
export async function checkSurrounded(
  arena: Arena,
  mutations: readonly SurroundedMutation[],
): Promise<boolean> {
  console.log(`  ${'mutation'.padEnd(40)}seconds  surrounding, and what it found`);
  let areFound = true;
  for (const mutation of mutations) {
    const { name, foundBy, finds } = mutation;
    const beganAt = performance.now();
    const broken = await playMutation(arena, mutation);
    const own = broken.find((one) => finds.test(one));
    console.log(`  ${name.padEnd(40)}${secondsSince(beganAt)}  ${foundBy}: ${own ?? 'NOT FOUND'}`);
    if (own === undefined) tell(broken);
    areFound &&= own !== undefined;
  }
  return areFound;
}

/** @returns what its surrounding has found. */
async function playMutation(
  arena: Arena,
  { foundBy, changes }: SurroundedMutation,
): Promise<readonly string[]> {
  const build = await buildBus(changes);
  try {
    const { play } = SURROUNDINGS.find(({ name }) => name === foundBy)!;
    return (await play({ arena, build })).broken;
  } finally {
    await build.remove();
  }
}

function secondsSince(beganAt: number): string {
  return ((performance.now() - beganAt) / SECOND).toFixed(0).padStart(7);
}

function tell(broken: readonly string[]): void {
  const kinds = [...grouped(broken, (one) => one.replaceAll(/\d+/g, 'n')).values()];
  for (const [first, ...others] of kinds.slice(0, KINDS))
    console.log(`           ${first}${others.length === 0 ? '' : ` (and ${others.length} like it)`}`);
}

/** @returns none when there is none of this name. */
export function surroundingsNamed(name: string): readonly Surrounding[] {
  return SURROUNDINGS.filter((one) => name === 'all' || one.name === name);
}

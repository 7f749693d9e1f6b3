import type { WayOfFailing } from '../../../drizzle/schema.ts';

/** Says how an incident has gone: `500, then no answer, now an outage`; null while it has failed in one way only. */
export function courseWords(course: readonly WayOfFailing[]): string | null {
  const ways = course.map(wayWords).filter((way, index, all) => way !== all[index - 1]);
  // That an outage is no answer goes without saying.
  if (ways.length < 2 || ways.join() === 'no answer,an outage') return null;
  return [
    ...ways.slice(0, -1).map((way, index) => (index === 0 ? way : `then ${way}`)),
    `now ${ways.at(-1)}`,
  ].join(', ');
}

function wayWords({ kind, isOutage }: WayOfFailing): string {
  if (isOutage) return 'an outage';
  if (kind === 'timeout' || kind === 'unreachable') return 'no answer';
  return /^http_(\d{3})$/.exec(kind)?.[1] ?? kind;
}

const ORDINALS = ['', 'first', 'second', 'third', 'fourth', 'fifth', 'sixth'];

/** Says which time it is: `third time`. */
export function timeWords(times: number): string {
  const ordinal = ORDINALS[times];
  return ordinal === undefined ? `${times} times` : `${ordinal} time`;
}

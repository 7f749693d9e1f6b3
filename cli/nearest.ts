import { closestMatch } from 'leven';

import { misused } from './failure.ts';
import type { Failure } from './failure.ts';

/** Finds the known name that was probably meant; null where none is near. */
export function nearest(written: string, known: readonly string[]): string | null {
  const lowerCase = written.toLowerCase();
  // One edit for every three characters.
  const maxDistance = Math.max(1, Math.floor(written.length / 3));
  const close = closestMatch(lowerCase, [...known], { maxDistance });
  if (close !== undefined) return close;
  // An abbreviation, such as `dead` for `dead-letters`.
  const longer = written.length >= 2 ? known.filter((name) => name.startsWith(lowerCase)) : [];
  return longer.length === 1 ? longer[0]! : null;
}

/** Says that a name is unknown, and which was probably meant. @param advice for where none is near. */
export function unknownName(
  kind: string,
  written: string,
  known: readonly string[],
  advice = `Known: ${known.join(', ')}`,
): Failure {
  const meant = nearest(written, known);
  return meant === null
    ? misused(`Unknown ${kind} '${written}'.`, advice)
    : misused(`Unknown ${kind} '${written}'. Did you mean '${meant}'?`);
}

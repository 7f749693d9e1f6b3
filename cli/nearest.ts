import { nearest } from '../lib/platform/nearest.ts';
import { misused } from './failure.ts';
import type { Failure } from './failure.ts';

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

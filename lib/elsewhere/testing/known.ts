import { nearest } from '../../platform/nearest.ts';

/** @throws TypeError for a name that the catalog does not have, with the nearest one. */
export function requireKnown(kind: string, written: string, known: readonly string[], of = ''): void {
  if (known.includes(written)) return;
  const meant = nearest(written, known);
  const advice = meant === null ? `Known: ${known.join(', ')}.` : `Did you mean '${meant}'?`;
  throw new TypeError(`Unknown ${kind} '${written}'${of}. ${advice}`);
}

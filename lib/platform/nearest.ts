import { closestMatch } from 'leven';

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

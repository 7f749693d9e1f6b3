import { nearest } from '../../nearest.ts';

/** Says that a name is not known, and which was probably meant. @param example for where none is near. */
export function unknownName(
  kind: string,
  written: string,
  known: readonly string[],
  example: string,
): string {
  const meant = nearest(written, known);
  return meant === null
    ? `expected a ${kind} of the catalog, for example ${example}`
    : `expected a ${kind} of the catalog; did you mean ${meant}?`;
}

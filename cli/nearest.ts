/** The name that was probably meant, or null where none is near. */
export function nearest(written: string, names: readonly string[]): string | null {
  const ranked = names
    .map((name) => ({ name, distance: distanceOf(written.toLowerCase(), name.toLowerCase()) }))
    .toSorted((one, other) => one.distance - other.distance);
  const [first] = ranked;
  if (first && first.distance <= Math.max(1, Math.floor(written.length / 3))) return first.name;
  // Cut short: `dead` for `dead-letters`.
  const longer = written.length >= 2 ? names.filter((name) => name.startsWith(written.toLowerCase())) : [];
  return longer.length === 1 ? longer[0]! : null;
}

/** How many signs to add, drop, replace or swap with their neighbour to make one of the other. */
function distanceOf(one: string, other: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let row = 1; row <= one.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= other.length; column += 1) {
      const isSame = one[row - 1] === other[column - 1];
      let least = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + (isSame ? 0 : 1));
      const isSwapped =
        row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      if (isSwapped) least = Math.min(least, beforeLast[column - 2]! + 1);
      current.push(least);
    }
    beforeLast = last;
    last = current;
  }
  return last.at(-1)!;
}

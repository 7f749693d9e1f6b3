const ORDINALS = ['', 'first', 'second', 'third', 'fourth', 'fifth', 'sixth'];

/** Says which time it is: `third time`. */
export function timeWords(times: number): string {
  const ordinal = ORDINALS[times];
  return ordinal === undefined ? `${times} times` : `${ordinal} time`;
}

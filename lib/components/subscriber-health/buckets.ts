/**
 * The upper bounds of the buckets that times are counted in: 1 ms and up, each bound √2 times the one before it, to 6.2
 * days. The last bucket, without a bound, holds everything longer.
 *
 * Stored counts refer to these bounds: another scale needs other columns.
 */
export const BOUNDS_MS: readonly number[] = Array.from({ length: 59 }, (_, index) => 2 ** (index / 2));

export const BUCKETS = BOUNDS_MS.length + 1;

/** Counts of times by bucket. */
export type Histogram = readonly number[];

/** The bucket of a time: the first whose bound is not below it. */
export function bucketOf(ms: number): number {
  return ms <= 1 ? 0 : Math.min(BOUNDS_MS.length, Math.ceil(2 * Math.log2(ms)));
}

/** Adds histograms bucket by bucket; a shorter one counts as zero at its end. */
export function addHistograms(histograms: readonly Histogram[]): number[] {
  const total = Array.from({ length: BUCKETS }, () => 0);
  for (const counts of histograms) for (const [bucket, count] of counts.entries()) total[bucket]! += count;
  return total;
}

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

/**
 * Estimates a quantile, within the bucket that holds it.
 *
 * @param share such as 0.95.
 * @returns milliseconds, at most the last bound; null without any times.
 */
export function quantileMs(counts: Histogram, share: number): number | null {
  const total = sum(counts);
  if (total === 0) return null;
  const rank = Math.ceil(share * total);
  let below = 0;
  for (const [bucket, count] of counts.entries()) {
    if (count > 0 && below + count >= rank) {
      const from = bucket === 0 ? 0 : BOUNDS_MS[bucket - 1]!;
      const to = BOUNDS_MS[bucket] ?? from;
      // The times of a bucket are taken as evenly spread over it: a single one as in its middle.
      return from + ((rank - below - 0.5) / count) * (to - from);
    }
    below += count;
  }
  return BOUNDS_MS.at(-1)!;
}

/** Adds histograms bucket by bucket; a shorter one counts as zero at its end. */
export function addHistograms(histograms: readonly Histogram[]): number[] {
  const total = Array.from({ length: BUCKETS }, () => 0);
  for (const counts of histograms) for (const [bucket, count] of counts.entries()) total[bucket]! += count;
  return total;
}

function sum(counts: Histogram): number {
  return counts.reduce((total, count) => total + count, 0);
}

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import {
  BOUNDS_MS,
  BUCKETS,
  addHistograms,
  bucketOf,
} from '../../lib/components/subscriber-health/buckets.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';

function histogramOf(times: readonly number[]): number[] {
  const counts = Array.from({ length: BUCKETS }, () => 0);
  for (const ms of times) counts[bucketOf(ms)]! += 1;
  return counts;
}

describe('the buckets', () => {
  test('reach from 1 ms to days, each 1.4 times as wide as the one before it', () => {
    expect(BOUNDS_MS[0]).toBe(1);
    expect(BOUNDS_MS.at(-1)).toBeGreaterThan(6 * DAY);
    for (const [index, bound] of BOUNDS_MS.slice(1).entries())
      expect(bound / BOUNDS_MS[index]!).toBeCloseTo(Math.SQRT2, 9);
  });

  test('hold each time at or below their bound, and above the one before it', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 20 * DAY, noNaN: true }), (ms) => {
        const bucket = bucketOf(ms);
        expect(ms).toBeLessThanOrEqual((BOUNDS_MS[bucket] ?? Infinity) * (1 + 1e-12));
        if (bucket > 0) expect(ms).toBeGreaterThan(BOUNDS_MS[bucket - 1]! * (1 - 1e-12));
      }),
    );
  });
});

test('histograms of different lengths add up', () => {
  const sum = addHistograms([histogramOf([MINUTE, MINUTE]), [3, 1], []]);
  expect(sum[0]).toBe(3);
  expect(sum[1]).toBe(1);
  expect(sum[bucketOf(MINUTE)]).toBe(2);
});

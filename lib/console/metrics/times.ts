import { subscriberNames } from '../../bus/catalog/catalog.ts';
import { BOUNDS_MS } from '../../components/subscriber-health/buckets.ts';
import type { Histogram } from '../../components/subscriber-health/buckets.ts';
import { SECOND } from '../../platform/time.ts';

/** The times of a subscriber since its first delivery. */
export interface FoundTimes {
  readonly subscriber: string;
  readonly delivered_in: Histogram;
  readonly delivered_ms: number;
  readonly handled_in: Histogram;
  readonly handled_ms: number;
}

/** Every fourth bound of the buckets, each four times the one before it: 1 ms, 4 ms, 16 ms, … 3 days. */
const SHOWN_BOUNDS = BOUNDS_MS.flatMap((ms, bucket) =>
  bucket % 4 === 0 ? [{ bucket, seconds: ms / SECOND }] : [],
);

/**
 * Writes two histograms with a few hundred series each, for every subscriber of the catalog, with zeros if need be.
 *
 * As text, because the library's histograms observe single values: they can't take counts that the database keeps. The
 * only labels are names of the catalog, which need no escaping.
 */
export function timesText(times: readonly FoundTimes[]): string {
  return [
    ...histogram(
      'postbud_delivery_seconds',
      'Time from an event’s record to its delivery, without replays; approximate.',
      times.map(({ subscriber, delivered_in: counts, delivered_ms: ms }) => [subscriber, { counts, ms }]),
    ),
    ...histogram(
      'postbud_handler_seconds',
      'Time that handlers took, of all attempts; approximate.',
      times.map(({ subscriber, handled_in: counts, handled_ms: ms }) => [subscriber, { counts, ms }]),
    ),
    '',
  ].join('\n');
}

interface Kept {
  readonly counts: Histogram;
  /** The sum of the times. */
  readonly ms: number;
}

function histogram(name: string, help: string, kept: readonly (readonly [string, Kept])[]): string[] {
  const known = new Map(kept);
  return [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} histogram`,
    ...subscriberNames().flatMap((subscriber) => {
      const { counts, ms } = known.get(subscriber) ?? { counts: [], ms: 0 };
      const upTo = (bucket: number) => counts.slice(0, bucket + 1).reduce((sum, count) => sum + count, 0);
      const total = upTo(counts.length);
      const labels = `subscriber="${subscriber}"`;
      return [
        ...SHOWN_BOUNDS.map(
          ({ bucket, seconds }) => `${name}_bucket{${labels},le="${seconds}"} ${upTo(bucket)}`,
        ),
        `${name}_bucket{${labels},le="+Inf"} ${total}`,
        `${name}_sum{${labels}} ${ms / SECOND}`,
        `${name}_count{${labels}} ${total}`,
      ];
    }),
  ];
}

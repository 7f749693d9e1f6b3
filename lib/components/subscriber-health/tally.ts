import { BUCKETS, addHistograms, bucketOf } from './buckets.ts';

/** A delivered attempt. */
export interface Delivered {
  /** When it began, by the database's clock, in epoch milliseconds. */
  readonly atMs: number;
  /** How long its handler took. */
  readonly durationMs: number;
  /** When the event was recorded; null of a backfill or a rename, of which the time since then says nothing. */
  readonly recordedAtMs: number | null;
  /** How often operators had replayed the delivery. */
  readonly replays: number;
}

/** An attempt that did not deliver. */
export interface Undelivered {
  readonly durationMs: number;
  /** Whether its relay died, so that nobody knows how long the handler took. */
  readonly isLapse: boolean;
}

/** The times of a subscriber. */
export interface Tally {
  readonly subscriber: string;
  /** By bucket: from the event's record to its delivery, without replays. */
  deliveredIn: number[];
  deliveredMs: number;
  /** By bucket: the time that handlers took, of all attempts. */
  handledIn: number[];
  handledMs: number;
}

export function emptyTally(subscriber: string): Tally {
  const none = () => Array.from({ length: BUCKETS }, () => 0);
  return { subscriber, deliveredIn: none(), deliveredMs: 0, handledIn: none(), handledMs: 0 };
}

export function addDelivered(tally: Tally, { atMs, durationMs, recordedAtMs, replays }: Delivered): void {
  addHandled(tally, durationMs);
  if (replays > 0 || recordedAtMs === null) return;
  // Two clocks: the event's is that of its insert, the attempt's continues from the last turn.
  const deliveredMs = Math.max(0, atMs + durationMs - recordedAtMs);
  tally.deliveredIn[bucketOf(deliveredMs)]! += 1;
  tally.deliveredMs += deliveredMs;
}

export function addUndelivered(tally: Tally, { durationMs, isLapse }: Undelivered): void {
  if (!isLapse) addHandled(tally, durationMs);
}

function addHandled(tally: Tally, ms: number): void {
  tally.handledIn[bucketOf(ms)]! += 1;
  tally.handledMs += ms;
}

/** Adds what another tally counted. */
export function addTally(to: Tally, other: Tally): void {
  to.deliveredIn = addHistograms([to.deliveredIn, other.deliveredIn]);
  to.deliveredMs += other.deliveredMs;
  to.handledIn = addHistograms([to.handledIn, other.handledIn]);
  to.handledMs += other.handledMs;
}

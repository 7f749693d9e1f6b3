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
export interface Undelivered extends Omit<Delivered, 'recordedAtMs'> {
  /** Whether its relay died, so that nobody knows how long the handler took. */
  readonly isLapse: boolean;
  /** `waited`: the handler asked to wait. */
  readonly outcome: 'failed' | 'waited';
  /** Null after the last attempt: the delivery is a dead letter. */
  readonly nextAttemptAtMs: number | null;
}

/** What happened in one subscription within an hour. An empty topic stands for all topics of the subscriber. */
export interface Tally {
  readonly subscriber: string;
  readonly topic: string;
  /** When the hour begins, in epoch milliseconds. */
  readonly startsAtMs: number;
  /** First deliveries, without replays. */
  delivered: number;
  /** Failed attempts, including the last ones before a dead letter. */
  failed: number;
  deadLettered: number;
  replaysDelivered: number;
  replaysDeadLettered: number;
  /** By bucket: from the event's record to its delivery, of `delivered`. */
  deliveredIn: number[];
  deliveredMs: number;
  /** By bucket: the time that handlers took, of all attempts. */
  handledIn: number[];
  handledMs: number;
}

export function emptyTally(subscriber: string, topic: string, startsAtMs: number): Tally {
  return {
    subscriber,
    topic,
    startsAtMs,
    delivered: 0,
    failed: 0,
    deadLettered: 0,
    replaysDelivered: 0,
    replaysDeadLettered: 0,
    deliveredIn: Array.from({ length: BUCKETS }, () => 0),
    deliveredMs: 0,
    handledIn: Array.from({ length: BUCKETS }, () => 0),
    handledMs: 0,
  };
}

export function addDelivered(tally: Tally, { atMs, durationMs, recordedAtMs, replays }: Delivered): void {
  addHandled(tally, durationMs);
  if (replays > 0) {
    tally.replaysDelivered += 1;
    return;
  }
  tally.delivered += 1;
  if (recordedAtMs === null) return;
  // Two clocks: the event's is that of its insert, the attempt's continues from the last turn.
  const deliveredMs = Math.max(0, atMs + durationMs - recordedAtMs);
  tally.deliveredIn[bucketOf(deliveredMs)]! += 1;
  tally.deliveredMs += deliveredMs;
}

export function addUndelivered(
  tally: Tally,
  { durationMs, isLapse, outcome, nextAttemptAtMs, replays }: Undelivered,
): void {
  if (!isLapse) addHandled(tally, durationMs);
  if (outcome === 'failed') tally.failed += 1;
  if (nextAttemptAtMs !== null) return;
  if (replays > 0) tally.replaysDeadLettered += 1;
  else tally.deadLettered += 1;
}

function addHandled(tally: Tally, ms: number): void {
  tally.handledIn[bucketOf(ms)]! += 1;
  tally.handledMs += ms;
}

/** Adds what another tally counted. */
export function addTally(to: Tally, other: Tally): void {
  to.delivered += other.delivered;
  to.failed += other.failed;
  to.deadLettered += other.deadLettered;
  to.replaysDelivered += other.replaysDelivered;
  to.replaysDeadLettered += other.replaysDeadLettered;
  to.deliveredIn = addHistograms([to.deliveredIn, other.deliveredIn]);
  to.deliveredMs += other.deliveredMs;
  to.handledIn = addHistograms([to.handledIn, other.handledIn]);
  to.handledMs += other.handledMs;
}

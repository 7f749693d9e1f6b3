import type { HandlerEnd } from '../history.ts';
import { grouped, hasEnded } from '../reading.ts';
import type { DeliveryHistory, Reading } from '../reading.ts';
import { ROUNDING_MS } from './promises.ts';
import type { Violation } from './promises.ts';

/** Promise 2: what comes first, and that nothing overtakes. */
export function* inOrder(read: Reading): Generator<Violation> {
  const ageOf = new Map(
    read.history.events.map(({ id, createdAt, seq }) => [
      id,
      `${createdAt} ${String(seq).padStart(12, '0')}`,
    ]),
  );
  for (const unsorted of grouped(read.deliveries.values(), ({ strand }) => strand).values()) {
    const lane = unsorted.toSorted((one, other) => one.position - other.position);
    for (const [index, delivery] of lane.entries()) {
      const before = lane[index - 1];
      if (!before) continue;
      const { eventId, laneId, position } = delivery;
      const subscriber = delivery.limits.name;
      const about = { eventId, laneId, subscriber };
      if ((ageOf.get(before.eventId) ?? '') > (ageOf.get(eventId) ?? '')) {
        const what = `position ${position} in the lane of ${subscriber} is older than position ${before.position}`;
        yield { rule: 'order', what, about, t: delivery.versions[0]!.at };
      }
      // Newer events may have been delivered before it was written: promise 12.
      if (before.versions[0]!.backfilled) continue;
      const first = delivery.calls[0]?.start;
      if (first && first.t + ROUNDING_MS < firstSettledAt(read, before, first.relay)) {
        const what = `${subscriber} was handed ${first.tag} before the event ahead of it was settled`;
        yield { rule: 'order', what, about, t: first.t };
      }
      const settledAt = writtenAt(delivery);
      const isTogether =
        before.versions.find(hasEnded)?.transaction === delivery.versions.find(hasEnded)?.transaction;
      if (delivery.limits.transactional && !isTogether && settledAt < writtenAt(before)) {
        const what = `what ${subscriber} made of position ${position} was committed before the event ahead of it was settled`;
        yield { rule: 'order', what, about, t: settledAt };
      }
    }
  }
}

function writtenAt({ versions }: DeliveryHistory): number {
  return versions.find(hasEnded)?.at ?? Infinity;
}

/**
 * When a delivery was settled for the first time, as far as a relay knew. Of what it did itself it knows the outcome
 * before the database does, and goes on: with the batch that it settles together, or in the transaction that the
 * deliveries share. Whatever ended before a crash may have been settled, and taken back since.
 */
export function firstSettledAt(read: Reading, delivery: DeliveryHistory, relay: string): number {
  const ended = delivery.calls.flatMap(({ start, end }) => {
    const mayBeTakenBack = read.mayBeTakenBack(start);
    // A turn has to settle what failed before a transaction that follows it.
    const isKnown =
      mayBeTakenBack || (start.relay === relay && (end?.end === 'ok' || !delivery.limits.transactional));
    return end && isKnown && hasEndedIt(end.end, start.attempt, delivery) ? [end.t] : [];
  });
  return Math.min(writtenAt(delivery), ...ended);
}

function hasEndedIt(end: HandlerEnd, attempt: number, { limits }: DeliveryHistory): boolean {
  if (end === 'threw' || end === 'timed out') return attempt >= limits.maxAttempts;
  return end === 'ok' || end === 'permanent';
}

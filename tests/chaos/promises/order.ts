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
  for (const unsorted of grouped(read.deliveries.values(), ({ laneId }) => laneId).values()) {
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
      const first = delivery.calls[0]?.start;
      if (first && first.t + ROUNDING_MS < firstSettledAt(before)) {
        const what = `${subscriber} was handed ${first.tag} before the event ahead of it was settled`;
        yield { rule: 'order', what, about, t: first.t };
      }
    }
  }
}

/**
 * When a delivery was settled for the first time. A transactional handler settles in its transaction; of the others
 * the relay knows the outcome before the database does, and may go on.
 */
function firstSettledAt({ versions, calls, limits }: DeliveryHistory): number {
  const settledAt = versions.find(hasEnded)?.at ?? Infinity;
  if (limits.transactional) return settledAt;
  const last = calls.find(({ start, end }) => {
    switch (end?.end) {
      case 'ok':
      case 'permanent':
        return true;
      case 'threw':
      case 'timed out':
        return start.attempt >= limits.maxAttempts;
      default:
        return false;
    }
  });
  return Math.min(settledAt, last?.end?.t ?? Infinity);
}

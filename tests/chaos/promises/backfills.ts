import type { StoredBackfill } from '../history.ts';
import { grouped } from '../reading.ts';
import type { DeliveryHistory, Reading } from '../reading.ts';
import { firstSettledAt } from './order.ts';
import { ROUNDING_MS } from './promises.ts';
import type { Violation } from './promises.ts';

/** Promise 12. */
export function* backfilled(read: Reading): Generator<Violation> {
  const { backfills, events } = read.history;
  const topicOf = new Map(events.map(({ id, topic }) => [id, topic]));
  const all = [...read.deliveries.values()].filter(({ eventId }) => topicOf.has(eventId));
  for (const backfill of backfills) {
    const ofTopic = all.filter(({ eventId }) => topicOf.get(eventId) === backfill.topic);
    const own = ofTopic.filter(({ limits }) => limits.name === backfill.subscriber);
    yield* nothingMissing(backfill, ofTopic, own);
    for (const strand of grouped(own, (delivery) => delivery.strand).values())
      yield* beforeNewer(backfill, strand, read);
  }
}

/** Each event that had its place when it was requested has a delivery in the end. */
function* nothingMissing(
  { subscriber, requestedAt, endedAt }: StoredBackfill,
  ofTopic: readonly DeliveryHistory[],
  own: readonly DeliveryHistory[],
): Generator<Violation> {
  if (endedAt === null) {
    yield { rule: 'backfill', what: `a backfill for ${subscriber} never ends`, about: { subscriber } };
    return;
  }
  const found = new Set(own.map(({ eventId }) => eventId));
  const missing = ofTopic.find(
    ({ eventId, versions }) => versions[0]!.at < requestedAt - 1000 && !found.has(eventId),
  );
  if (!missing) return;
  const { eventId } = missing;
  const what = `a backfill left ${subscriber} without it`;
  yield { rule: 'backfill', what, about: { eventId, subscriber } };
}

function* beforeNewer(
  { begunAt, endedAt }: StoredBackfill,
  strand: readonly DeliveryHistory[],
  read: Reading,
): Generator<Violation> {
  const inOrder = strand.toSorted((one, other) => one.position - other.position);
  for (const [index, delivery] of inOrder.entries()) {
    const before = inOrder[index - 1];
    const [call] = delivery.calls;
    const written = before?.versions[0];
    if (begunAt === null || !call || !before || !written?.backfilled) continue;
    // Its row is noted later than the moment that it is written at, which may be the backfill's last.
    const writtenAt = Date.parse(written.log[0]?.at ?? '');
    if (written.at < begunAt || writtenAt > (endedAt ?? Infinity)) continue;
    const { start } = call;
    const claimedAt = read.lease(call, start.t)?.claim.at ?? 0;
    if (claimedAt <= begunAt || start.t + ROUNDING_MS >= firstSettledAt(read, before, start.relay)) continue;
    const { eventId, laneId, limits } = delivery;
    const what = `${limits.name} was handed ${start.tag} before the backfilled event ahead of it was settled`;
    yield { rule: 'backfill', what, about: { eventId, laneId, subscriber: limits.name }, t: start.t };
  }
}

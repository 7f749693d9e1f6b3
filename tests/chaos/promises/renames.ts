import { hasEnded, grouped } from '../reading.ts';
import type { StoredBackfill } from '../history.ts';
import type { DeliveryHistory, Reading } from '../reading.ts';
import { firstSettledAt } from './order.ts';
import { ROUNDING_MS } from './promises.ts';
import type { Violation } from './promises.ts';

/** Promise 13. In the end of a run with renames there is one more, when nothing else happens. */
export function* renamed(read: Reading): Generator<Violation> {
  const topicOf = new Map(read.history.events.map(({ id, topic }) => [id, topic]));
  for (const rename of read.history.backfills) {
    const { topic, subscriber, renamedFrom, endedAt } = rename;
    if (renamedFrom === null) continue;
    if (endedAt === null) {
      const what = `the rename of ${renamedFrom} to ${subscriber} never ends`;
      yield { rule: 'rename', what, about: { subscriber } };
    }
    const ofTopic = [...read.stays.values()].filter(({ eventId }) => topicOf.get(eventId) === topic);
    yield* nothingLeft(renamedFrom, ofTopic);
    const own = ofTopic.filter(({ limits }) => limits.name === subscriber);
    for (const strand of grouped(own, (delivery) => delivery.strand).values())
      yield* beforeNewer(rename, strand, read);
  }
}

/** What is the former name's in the end was delivered to it. */
function* nothingLeft(name: string, ofTopic: readonly DeliveryHistory[]): Generator<Violation> {
  for (const { limits, leftAt, versions, eventId, laneId } of ofTopic) {
    const last = versions.at(-1)!;
    if (limits.name !== name || leftAt !== null || (hasEnded(last) && last.state === 'delivered')) continue;
    const what = `it is ${last.state} under the former name ${name}`;
    yield { rule: 'rename', what, about: { eventId, laneId, subscriber: name } };
  }
}

/** Nothing that is claimed after a rename has begun comes before what it moves. */
function* beforeNewer(
  { begunAt, endedAt }: StoredBackfill,
  strand: readonly DeliveryHistory[],
  read: Reading,
): Generator<Violation> {
  const inOrder = strand.toSorted((one, other) => one.position - other.position);
  for (const [index, delivery] of inOrder.entries()) {
    const before = inOrder[index - 1];
    const [call] = delivery.calls;
    const moved = before?.versions[0];
    if (begunAt === null || !before || !moved?.backfilled || !call) continue;
    if (moved.at < begunAt || moved.at > (endedAt ?? Infinity)) continue;
    const { start } = call;
    const claimedAt = read.lease(call, start.t)?.claim.at ?? 0;
    if (claimedAt <= begunAt || start.t + ROUNDING_MS >= firstSettledAt(before, start.relay)) continue;
    const { eventId, laneId, limits } = delivery;
    const what = `${limits.name} was handed ${start.tag} before the event ahead of it, which it has from its former name`;
    yield { rule: 'rename', what, about: { eventId, laneId, subscriber: limits.name }, t: start.t };
  }
}

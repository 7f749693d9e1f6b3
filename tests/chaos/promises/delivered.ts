import type { StoredEvent } from '../history.ts';
import { grouped, hasEnded, timesDelivered } from '../reading.ts';
import type { DeliveryHistory, Reading } from '../reading.ts';
import type { Violation } from './promises.ts';

/** Promise 1. */
export function* delivered(read: Reading): Generator<Violation> {
  const { events, emits, markers, releases, timers } = read.history;
  const stored = new Set(events.map(({ id }) => id));
  // What becomes of a timer is promise 15.
  const set = new Set(timers.map(({ id }) => id));
  for (const { id, tag, fate } of emits) {
    const about = { eventId: id };
    if (fate === 'committed' && !stored.has(id) && !set.has(id))
      yield { rule: 'outcome', what: `${tag} was committed and is gone`, about };
    if (fate === 'rolled back' && stored.has(id))
      yield { rule: 'outcome', what: `${tag} was rolled back and is there`, about };
  }
  for (const { start } of read.calls) {
    const { subscriber, tag, eventId, t } = start;
    const what = `${subscriber} was handed ${tag}, which was never committed`;
    if (!stored.has(eventId)) yield { rule: 'outcome', what, about: { eventId, subscriber }, t };
  }
  if (markers > 0)
    yield { rule: 'outcome', what: `${markers} events still wait for their places`, about: {} };
  const byEvent = grouped(read.deliveries.values(), ({ eventId }) => eventId);
  const releaseOf = new Map(emits.map(({ id, release }) => [id, release]));
  for (const event of events) {
    const { subscribers = [] } = releases[releaseOf.get(event.id) ?? 'present'][event.topic] ?? {};
    const found = byEvent.get(event.id) ?? [];
    const added = found.filter((one) => isOfBackfill(one, event, read)).map(({ limits }) => limits.name);
    yield* toEachSubscriber(event, found, [...new Set([...subscribers, ...added])]);
  }
  for (const delivery of read.deliveries.values()) yield* asOftenAsReturned(delivery);
}

function* toEachSubscriber(
  { id: eventId }: StoredEvent,
  deliveries: readonly DeliveryHistory[],
  subscribers: readonly string[],
): Generator<Violation> {
  for (const { limits, laneId } of deliveries) {
    if (subscribers.includes(limits.name)) continue;
    const what = `there is a delivery to ${limits.name}, which the event was not emitted for`;
    yield { rule: 'outcome', what, about: { eventId, laneId, subscriber: limits.name } };
  }
  for (const subscriber of subscribers) {
    const own = deliveries.filter(({ limits }) => limits.name === subscriber);
    if (own.length === 0) {
      const what = `there is no delivery to ${subscriber}`;
      yield { rule: 'outcome', what, about: { eventId, subscriber } };
    }
    for (const { laneId, versions } of own) {
      const last = versions.at(-1)!;
      if (hasEnded(last)) continue;
      const what = `the delivery to ${subscriber} is still ${last.state}, long after the last fault`;
      yield { rule: 'outcome', what, about: { eventId, laneId, subscriber } };
    }
  }
}

/** Whether a backfill wrote it, or gave the subscriber what was beyond its head: nothing of that was handed over before. */
function isOfBackfill(
  { limits, versions, calls }: DeliveryHistory,
  { topic }: StoredEvent,
  { history: { backfills } }: Reading,
): boolean {
  return backfills.some(
    (backfill) =>
      backfill.topic === topic &&
      backfill.subscriber === limits.name &&
      Math.max(versions[0]!.at, calls[0]?.start.t ?? Infinity) >= backfill.requestedAt,
  );
}

/** Promise 9. */
export function* readable(read: Reading): Generator<Violation> {
  const { releases, events } = read.history;
  const topicOf = new Map(events.map(({ id, topic }) => [id, topic]));
  for (const { start } of read.calls) {
    const { release, subscriber, tag, version, eventId, t } = start;
    const known = releases[release][topicOf.get(eventId) ?? '']?.version ?? Infinity;
    if (version <= known) continue;
    const what = `${subscriber} of the ${release} release was handed ${tag} in version ${version}; it knows ${known}`;
    yield { rule: 'version', what, about: { eventId, subscriber }, t };
  }
}

/** What no handler has returned from can't have been delivered. */
function* asOftenAsReturned({
  eventId,
  laneId,
  limits,
  versions,
  calls,
}: DeliveryHistory): Generator<Violation> {
  const times = timesDelivered(versions);
  const returned = calls.filter(({ end }) => end?.end === 'ok').length;
  if (times <= returned) return;
  const what = `it was marked delivered to ${limits.name} ${times} times, but the handler returned ${returned} times`;
  yield { rule: 'outcome', what, about: { eventId, laneId, subscriber: limits.name } };
}

import { STATES } from '../history.ts';
import { deliveryIdOf, grouped, hasEnded } from '../reading.ts';
import type { DeliveryHistory, Reading } from '../reading.ts';
import type { Violation } from './promises.ts';

/** Promise 5: what the tables say about each other, and what they say in the end. */
export function* consistent(read: Reading): Generator<Violation> {
  for (const what of read.history.contradictions) {
    const eventId = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(what)?.[0];
    yield { rule: 'consistency', what, about: eventId === undefined ? {} : { eventId } };
  }
  const byEvent = grouped(read.deliveries.values(), ({ eventId }) => eventId);
  for (const { id: eventId, state } of read.history.events) {
    const states = (byEvent.get(eventId) ?? []).map(({ versions }) => {
      const { state: last, dismissedAt } = versions.at(-1)!;
      return STATES.indexOf(dismissedAt === null ? last : 'delivered');
    });
    const worst = STATES[Math.max(...states)];
    if (worst === undefined || state === worst) continue;
    const what = `it is ${state}, and the worst of its deliveries is ${worst}`;
    yield { rule: 'consistency', what, about: { eventId } };
  }
  const events = new Set(read.history.events.map(({ id }) => id));
  const found = new Map<string, string>();
  for (const { id, eventId, laneId, limits } of read.deliveries.values()) {
    const about = { eventId, laneId, subscriber: limits.name };
    if (!events.has(eventId)) {
      const what = `there is a delivery to ${limits.name} of an event that is not there`;
      yield { rule: 'consistency', what, about };
    }
    const key = `${eventId} ${limits.name}`;
    const twin = found.get(key);
    found.set(key, id);
    if (twin === undefined) continue;
    yield { rule: 'consistency', what: `it has two deliveries to ${limits.name}, ${twin} and ${id}`, about };
  }
}

/** Promise 6. */
export function* historyKept(read: Reading): Generator<Violation> {
  for (const { start } of read.calls) {
    const { subscriber, tag, eventId, t } = start;
    const id = deliveryIdOf(start);
    if (read.deliveries.has(id) || read.mayBeTakenBack(start)) continue;
    const what = `${subscriber} was handed ${tag} as ${id}, which is not there`;
    yield { rule: 'history', what, about: { eventId, subscriber }, t };
  }
  for (const delivery of read.deliveries.values()) {
    const { eventId, laneId, limits, versions } = delivery;
    const about = { eventId, laneId, subscriber: limits.name };
    for (const { what, t } of changes(delivery)) yield { rule: 'history', what, about, t };
    const last = versions.at(-1)!;
    const replays = last.log.filter(({ outcome }) => outcome === 'replayed').length;
    if (replays === last.replays) continue;
    const what = `it was replayed ${last.replays} times, and its history has ${replays} replays`;
    yield { rule: 'history', what, about, t: last.at };
  }
}

function* changes({ versions }: DeliveryHistory): Generator<{ what: string; t: number }> {
  for (const [index, version] of versions.entries()) {
    const before = versions[index - 1];
    if (!before) continue;
    const t = version.at;
    const isReplay = version.replays === before.replays + 1;
    if (version.eventId !== before.eventId) yield { what: 'another event has taken its position', t };
    if (JSON.stringify(version.log.slice(0, before.log.length)) !== JSON.stringify(before.log))
      yield { what: 'entries of its history are gone', t };
    if (hasEnded(before) && !isReplay && version.state !== before.state)
      yield { what: `it went from ${before.state} to ${version.state} without a replay`, t };
    if (isReplay && !hasEnded(before)) yield { what: `it was replayed while it was ${before.state}`, t };
    if (isReplay && (version.state !== 'pending' || version.attempts !== 0))
      yield { what: `a replay left it ${version.state} after ${version.attempts} attempts`, t };
  }
}

import type { LaneVersion } from '../history.ts';
import type { Call, Lease, Reading } from '../reading.ts';
import type { Violation } from './promises.ts';

/**
 * Promise 2: one handler of a lane, or of a key in a lane with keys, at a time, under the lease of its relay.
 *
 * A handler that began under its relay's lease runs until it ends, until its time limit or until the lease is over,
 * whichever of the two is later. One that is woken after that (its process was stopped) may still do something, which
 * no bus can prevent; its outcome counts for nothing, which `byTheHolder` sees to. The same holds for one whose claim the
 * database has forgotten in a crash.
 */
export function* withinLease(read: Reading): Generator<Violation> {
  for (const calls of read.callsByStrand.values()) {
    for (const [place, call] of calls.entries()) {
      const { relay, subscriber, tag, t, real, eventId } = call.start;
      const about = { eventId, subscriber };
      const lease = read.lease(call, t);
      if ((lease?.isOver ?? true) && read.mayBeTakenBack(call.start)) continue;
      if (!lease) {
        yield { rule: 'holder', what: `${relay} called ${subscriber} without a claim`, about, t };
        continue;
      }
      // Before a transactional handler is called a transaction has to begin, which may take seconds. What it does
      // after the lease it can't commit.
      if (lease.isOver && !read.limitsOf(subscriber).transactional && !read.isDisturbed(real, real)) {
        const what = `${relay} called ${subscriber} with ${tag} after its lease was over`;
        yield { rule: 'holder', what, about, t };
      }
      if (!lease.isOver) yield* aloneInLane(call, calls.slice(0, place), read);
      yield* longerThanHandler(call, lease, read);
    }
  }
}

function* aloneInLane({ start, index }: Call, earlier: readonly Call[], read: Reading): Generator<Violation> {
  const { relay, subscriber, tag, t, eventId } = start;
  for (const other of earlier) {
    if (other.end && other.end.index < index) continue;
    const lease = read.lease(other, t);
    if (!lease || lease.isOver) continue;
    if (t >= Math.max(other.start.t + read.limitsOf(subscriber).timeoutMs, lease.endsAt)) continue;
    const what = `${relay} called ${subscriber} with ${tag} while ${other.start.relay} was at ${other.start.tag}`;
    yield { rule: 'overlap', what, about: { eventId, subscriber }, t };
  }
}

/** If time passes evenly, a lane is not taken over while a handler is within its time limit. */
function* longerThanHandler({ start, end }: Call, { claim }: Lease, read: Reading): Generator<Violation> {
  const { eventId, relay, subscriber, tag, t, real } = start;
  const { timeoutMs } = read.limitsOf(subscriber);
  const versions = read.holding(start);
  const taken = versions
    .slice(versions.indexOf(claim) + 1)
    .find(({ token, at }) => token !== claim.token && at > t);
  // Let go by its own relay is not taken.
  if (!taken || taken.token === null || taken.at >= t + timeoutMs || (end && end.t <= taken.at)) return;
  const afterMs = taken.at - t;
  if (read.isDisturbed(real, real + afterMs)) return;
  const what = `${taken.by} took the lane ${Math.round(afterMs)} ms after ${relay} called ${subscriber} with ${tag}, which has ${timeoutMs} ms`;
  yield { rule: 'lease', what, about: { eventId, subscriber }, t: taken.at };
}

/** Promise 2: only who holds a lane settles in it, and a lane is taken only when nobody holds it or the lease is over. */
export function* byTheHolder(read: Reading): Generator<Violation> {
  const latest = new Map<string, LaneVersion>();
  for (const version of read.history.lanes) {
    const { id, at, subscriber } = version;
    const before = latest.get(id);
    const what = read.claims.has(version) ? takenEarly(version, before) : changedByAnother(version, before);
    if (what !== null) yield { rule: 'holder', what, about: { laneId: id, subscriber }, t: at };
    latest.set(id, version);
  }
}

function takenEarly({ by, at, subscriber }: LaneVersion, before: LaneVersion | undefined): string | null {
  const leftMs = before?.token ? (before.dueAt ?? 0) - at : 0;
  if (leftMs <= 0) return null;
  return `${by} took the lane of ${subscriber} that ${before!.by} held for another ${Math.round(leftMs)} ms`;
}

/** A lane that nobody holds may be begun, and what it has may be parked. */
function changedByAnother({ by, subscriber }: LaneVersion, before: LaneVersion | undefined): string | null {
  if (!before || before.token === null || by === before.by || by === 'operator') return null;
  return `${by} changed the lane of ${subscriber}, which ${before.by} held`;
}

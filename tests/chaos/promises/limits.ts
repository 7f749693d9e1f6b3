import { rateOf, SECOND } from '../../../lib/platform/time.ts';
import { CRASHES } from '../history.ts';
import { deliveryIdOf, grouped } from '../reading.ts';
import type { Call, Reading } from '../reading.ts';
import { ROUNDING_MS } from './promises.ts';
import type { Violation } from './promises.ts';

/** How much longer than a handler's time limit its lease is. */
const LEASE_MARGIN_MS = 20 * SECOND;

/** Promise 16. */
export function* limited(read: Reading): Generator<Violation> {
  const bySubscriber = grouped(read.calls, ({ start }) => start.subscriber);
  for (const { name, rate, concurrency, timeoutMs, batch } of read.history.subscribers) {
    const calls = (bySubscriber.get(name) ?? []).filter(({ start }) => !read.mayBeTakenBack(start));
    if (concurrency !== undefined) yield* notMoreAtOnce(calls, concurrency, batch, read);
    if (rate !== undefined) yield* notFaster(calls, rate, timeoutMs + LEASE_MARGIN_MS, read);
  }
}

/** A handler counts until it ends, or its lease for the first time: the place of a relay that died is free then. */
function* notMoreAtOnce(
  calls: readonly Call[],
  concurrency: number,
  isOfBatches: boolean,
  read: Reading,
): Generator<Violation> {
  for (const [place, call] of calls.entries()) {
    const { relay, subscriber, tag, t, eventId } = call.start;
    const own = read.lease(call, t);
    // A batch goes on that had begun before its lease ended.
    if (own === null || own.isOver || (isOfBatches && own.hasRevived)) continue;
    const others = calls.slice(0, place).filter((other) => {
      const lease = read.lease(other, t);
      const isLeased = lease !== null && !lease.isOver && !lease.hasRevived && t < lease.endsAt;
      return isLeased && (other.end === null || other.end.index > call.index);
    });
    if (others.length < concurrency) continue;
    const what = `${relay} called ${subscriber} with ${tag} while ${others.length} of its handlers ran, which may be ${concurrency}`;
    yield { rule: 'concurrency', what, about: { eventId, subscriber }, t };
  }
}

/**
 * In no stretch of time are there more deliveries than the rate gives in it, and a twentieth of the rate, at least one. They
 * count when they are claimed; a claim's time is that of its lease. What a crash takes back of the count is not held
 * against anybody.
 */
function* notFaster(
  calls: readonly Call[],
  rate: string,
  leaseMs: number,
  read: Reading,
): Generator<Violation> {
  const { count, ms } = rateOf(rate)!;
  const burst = Math.max(1, Math.trunc(count / 20));
  const crashes = read.history.log.filter((entry) => entry.k === 'fault' && entry.fault === CRASHES);
  const charged = new Map<string, { readonly at: number; readonly call: Call }>();
  for (const call of calls) {
    const { claim } = read.lease(call, call.start.t) ?? {};
    if (!claim || claim.dueAt === null) continue;
    charged.set(`${claim.token} ${deliveryIdOf(call.start)}`, { at: claim.dueAt - leaseMs, call });
  }
  const inOrder = [...charged.values()].toSorted((one, other) => one.at - other.at);
  for (const [last, { at, call }] of inOrder.entries()) {
    const since = crashes.findLast(({ t }) => t <= at)?.t ?? -Infinity;
    const first = inOrder.slice(0, last + 1).findIndex((earlier, index) => {
      const allowed = burst + ((at - earlier.at + ROUNDING_MS) * count) / ms;
      return earlier.at > since && last - index + 1 > allowed;
    });
    if (first === -1) continue;
    const { subscriber, eventId } = call.start;
    const withinMs = Math.round(at - inOrder[first]!.at);
    const what = `${last - first + 1} deliveries to ${subscriber} were claimed within ${withinMs} ms, at ${rate}`;
    yield { rule: 'rate', what, about: { eventId, subscriber }, t: call.start.t };
    return;
  }
}

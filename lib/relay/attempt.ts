import type { ClaimedDelivery, ClaimedLane } from '../deliveries/claim.ts';
import type { DeliveryContext } from '../subscribers/subscriber.ts';
import type { Attempt, LaneWork } from './lane-work.ts';
import { deliveryIdOf } from './lane-work.ts';
import { Limit, isPromise, withinLimit } from './limit.ts';

/**
 * Hands a delivery to its handler, within the handler's time limit, and records how that ended.
 *
 * @returns what to wait for, which never rejects; nothing where the handler was done at once.
 */
export function attempt(work: LaneWork, place: number): Promise<void> | undefined {
  const one = work.begin(place);
  const { handler, subscriber } = work.lane.subscription;
  const limit = new Limit();
  const startedAt = performance.now();
  const hand = () => handler(one.delivery.event, contextOf(work.lane, one.delivery, one.atMs, limit));
  let ended: Promise<unknown> | null = null;
  try {
    const handled = one.observed ? one.observed.within(hand) : hand();
    if (isPromise(handled)) ended = withinLimit(handled, limit, subscriber.timeoutMs, work.options.signal);
  } catch (error) {
    threw(work, one, startedAt, error);
    return undefined;
  }
  if (ended) {
    const recorded = ended.then(
      () => one.work.delivered(one, performance.now() - startedAt),
      (error: unknown) => threw(one.work, one, startedAt, error),
    );
    const long = { attempt: one, beganAt: startedAt, ended: recorded };
    work.underWay.add(long);
    return recorded.finally(() => work.underWay.delete(long));
  }
  work.delivered(one, performance.now() - startedAt);
  return undefined;
}

function threw(work: LaneWork, one: Attempt, startedAt: number, error: unknown): void {
  // Cut off by the relay's own end: as if it had not been tried.
  if (work.isAborted) one.observed?.end(null);
  else work.failed(one, performance.now() - startedAt, error);
}

export function contextOf(
  lane: ClaimedLane,
  delivery: ClaimedDelivery,
  atMs: number,
  limit: { readonly signal: AbortSignal },
): DeliveryContext {
  return {
    deliveryId: deliveryIdOf(lane, delivery),
    attempt: delivery.attempts + 1,
    attemptedAt: new Date(atMs),
    replayed: delivery.replayed,
    get signal() {
      return limit.signal;
    },
  };
}

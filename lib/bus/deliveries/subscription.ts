import { onceFor } from '../../platform/once-for.ts';
import { SECOND } from '../../platform/time.ts';
import { catalog, isTopicName } from '../catalog/catalog.ts';
import { SMOKE_TEST } from '../catalog/smoke-test.ts';
import type { AttachedSubscriber, Handler } from '../subscribers/subscriber.ts';

/** The name of a subscription. */
export interface SubscriptionName {
  readonly topic: string;
  readonly subscriber: string;
}

/** One topic of one attached subscriber. */
export interface Subscription {
  /** `topic subscriber`; neither holds a space. */
  readonly key: string;
  readonly topic: string;
  readonly subscriber: AttachedSubscriber;
  readonly handler: Handler;
  /** The newest payload version that the handler can read: that of this release's catalog. */
  readonly version: number;
  readonly leaseMs: number;
}

/** A lease outlives the longest attempt by this much: time to settle, and for clocks that drift. */
export const LEASE_MARGIN_MS = 20 * SECOND;

/**
 * Lists every topic of every subscriber, by key. Read once for each list, because there are hundreds of subscriptions and
 * a relay starts at each emit.
 *
 * @throws TypeError when a subscription is attached twice.
 */
export const subscriptionsOf = onceFor(readSubscriptions);

/** Lists the subscriptions, as `topic subscriber`, whose handlers refuse replays. A component may be attached in parts. */
export function refusingReplays(subscribers: readonly AttachedSubscriber[]): string[] {
  return [...subscriptionsOf(subscribers).values()]
    .filter(({ subscriber }) => subscriber.onReplay === 'refuse')
    .map(({ key }) => key);
}

function readSubscriptions(subscribers: readonly AttachedSubscriber[]): ReadonlyMap<string, Subscription> {
  const subscriptions = new Map<string, Subscription>();
  for (const subscriber of subscribers) {
    for (const [topic, handler] of subscriber.handlers) {
      const key = `${topic} ${subscriber.name}`;
      if (subscriptions.has(key)) throw new TypeError(`${subscriber.name} is attached to ${topic} twice`);
      const leaseMs = subscriber.timeoutMs + LEASE_MARGIN_MS;
      subscriptions.set(key, { key, topic, subscriber, handler, version: versionOf(topic), leaseMs });
    }
  }
  return subscriptions;
}

function versionOf(topic: string): number {
  if (topic === SMOKE_TEST.topic) return SMOKE_TEST.version;
  // A subscriber can only be attached to topics of the catalog.
  return isTopicName(topic) ? catalog[topic].version : 0;
}

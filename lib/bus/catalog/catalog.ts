import type { z } from 'zod';
import { audit } from './audit.ts';
import { bookings } from './bookings.ts';
import { calendar } from './calendar.ts';
import { clocks } from './clocks.ts';
import { identity } from './identity.ts';
import { inquiries } from './inquiries.ts';
import { integrations } from './integrations.ts';
import { intelligence } from './intelligence.ts';
import { invoicing } from './invoicing.ts';
import { ledger } from './ledger.ts';
import { messaging } from './messaging.ts';
import { notifications } from './notifications.ts';
import { payments } from './payments.ts';
import { payouts } from './payouts.ts';
import { reporting } from './reporting.ts';
import { resources } from './resources.ts';
import { reviews } from './reviews.ts';
import { seasons } from './seasons.ts';
import { subscriptions } from './subscriptions.ts';
import { support } from './support.ts';
import { tenants } from './tenants.ts';
import type { Topic as TopicRow, Versioned } from './topic.ts';
import { webhooks } from './webhooks.ts';

/** Every topic of the platform by name. Only these may be emitted, and only to their subscribers. */
export const catalog = {
  ...bookings,
  ...payments,
  ...ledger,
  ...payouts,
  ...invoicing,
  ...identity,
  ...resources,
  ...calendar,
  ...messaging,
  ...notifications,
  ...seasons,
  ...subscriptions,
  ...tenants,
  ...reviews,
  ...support,
  ...audit,
  ...intelligence,
  ...reporting,
  ...integrations,
  ...clocks,
  ...webhooks,
  ...inquiries,
};

export type TopicName = keyof typeof catalog;

/** The payload of a topic's events in the newest version, as its subscribers read it. */
export type Payload<Name extends TopicName> = z.output<(typeof catalog)[Name]['payload']>;

/** The version and the payload of a topic's events: a union of all versions, which a check of `version` narrows. */
export type VersionedPayload<Name extends TopicName> = TopicName extends Name
  ? { readonly version: number; readonly payload: Payload<Name> }
  : Versioned<(typeof catalog)[Name]>;

/** The payload of a topic's events, as its producer passes it to `emit`. */
export type PayloadInput<Name extends TopicName> = z.input<(typeof catalog)[Name]['payload']>;

/** The components that subscribe to the topic. */
export type SubscriberOf<Name extends TopicName> = (typeof catalog)[Name]['subscribers'][number];

/** The components that subscribe to any topic. */
export type Subscriber = SubscriberOf<TopicName>;

/** The topics that the component subscribes to. */
export type TopicsOf<Name extends Subscriber> = {
  [Topic in TopicName]: Name extends SubscriberOf<Topic> ? Topic : never;
}[TopicName];

/** Checks whether a name from outside, or from another release's data, is a topic of this catalog. */
export function isTopicName(name: string): name is TopicName {
  return Object.hasOwn(catalog, name);
}

/** Lists the components that subscribe to a topic; none for a topic that only another release knows. */
export function subscribersOf(topic: string): readonly string[] {
  return isTopicName(topic) ? catalog[topic].subscribers : [];
}

/** Lists the rows of the catalog with their names, in the catalog's order. */
export function topics(): [TopicName, TopicRow][] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `Object.entries` types keys as any string
  return Object.entries<TopicRow>(catalog) as [TopicName, TopicRow][];
}

/** Lists the components that subscribe to at least one topic, sorted by name. */
export function subscriberNames(): string[] {
  return [...new Set(topics().flatMap(([, { subscribers }]) => subscribers))].toSorted();
}

/** Lists every component that produces a topic. */
export function producerNames(): string[] {
  return [...new Set(topics().map(([, { producer }]) => producer))].toSorted();
}

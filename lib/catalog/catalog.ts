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
import type { Topic as TopicRow } from './topic.ts';
import { webhooks } from './webhooks.ts';

/** Every topic of the platform by name: the one place that says what may be emitted and who is handed it. */
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

/** What an event of the topic carries, as its subscribers read it. */
export type Payload<Name extends TopicName> = z.output<(typeof catalog)[Name]['payload']>;

/** What its producer hands to `emit`. */
export type PayloadInput<Name extends TopicName> = z.input<(typeof catalog)[Name]['payload']>;

/** The components that are handed events of the topic. */
export type SubscriberOf<Name extends TopicName> = (typeof catalog)[Name]['subscribers'][number];

/** The components that are handed events of any topic. */
export type Subscriber = SubscriberOf<TopicName>;

/** The topics whose events the component is handed. */
export type TopicsOf<Name extends Subscriber> = {
  [Topic in TopicName]: Name extends SubscriberOf<Topic> ? Topic : never;
}[TopicName];

/** Tells whether a name from outside, or from a database of another version, is in this catalog. */
export function isTopicName(name: string): name is TopicName {
  return Object.hasOwn(catalog, name);
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

import { catalog, topics } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';

export const topicNames = topics().map(([topic]) => topic);

/** Ten topics with three subscribers each and no ordering key: 30 lanes, each a whole topic. */
export const drainTopics = [
  'booking.created',
  'booking.approved',
  'booking.cancelled',
  'booking.completed',
  'payment.failed',
  'payment.refunded',
  'invoice.issued',
  'resource.published',
  'season.lease.accepted',
  'tenant.onboarded',
] as const satisfies readonly TopicName[];

export const SUBSCRIBERS = 3;

/** A topic of one subscription, without ordering key. */
export const singleTopic = 'booking.waitlist.offered' satisfies TopicName;

/** A topic for every contender: ours knows its subscribers, peers receive them. */
export const withSubscribers = (topics: readonly TopicName[]) =>
  topics.map((topic) => ({ topic, subscribers: catalog[topic].subscribers }));

/** A payment provider's webhook. */
export function webhookBody(number: number): string {
  return JSON.stringify({
    id: `evt_${number}`,
    type: 'payment.captured',
    createdAt: '2026-11-21T10:00:00Z',
    data: { intentId: `pi_${number}`, amountMinor: 45_000, currency: 'NOK', bookingId: `bk_${number}` },
  });
}

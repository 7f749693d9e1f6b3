import type { TopicName } from '../../lib/catalog/catalog.ts';

/** Ten topics with three subscribers each and no ordering key, so 30 lanes that each are a whole topic. */
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

/** A payment provider's webhook as sent. */
export function webhookBody(number: number): string {
  return JSON.stringify({
    id: `evt_${number}`,
    type: 'payment.captured',
    createdAt: '2026-11-21T10:00:00Z',
    data: { intentId: `pi_${number}`, amountMinor: 45_000, currency: 'NOK', bookingId: `bk_${number}` },
  });
}

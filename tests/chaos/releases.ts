import type { Change } from './build.ts';

/** The tree as it stands, and the same tree with another catalog, as a rollout brings it. */
export type Release = 'present' | 'next';

export const RELEASES: readonly Release[] = ['present', 'next'];

/** The subscription that the next release adds, which a backfill gives the older events. */
export const JOINING = { topic: 'payment.failed', subscriber: 'calendar' } as const;

/**
 * What the next release changes: a topic is new, a subscriber joins, one leaves, a payload has a new version.
 */
export const NEXT_CATALOG: readonly Change[] = [
  {
    file: 'lib/bus/catalog/payments.ts',
    from: `  'payment.intent.created': topic({
    producer: 'payments',
    subscribers: ['bookings', 'audit'],`,
    to: `  'payment.settled': topic({
    producer: 'payments',
    subscribers: ['bookings', 'ledger'],
    description: 'A payment has reached the bank.',
    version: 1,
    listed: false,
    payload: z.object({ intentId: id }),
    example: { intentId: 'pi_3QxSolvik48213' },
  }),

  'payment.intent.created': topic({
    producer: 'payments',
    subscribers: ['bookings'],`,
  },
  {
    file: 'lib/bus/catalog/payments.ts',
    from: `subscribers: ['bookings', 'notifications', 'audit'],
    description: 'A payment failed, for example`,
    to: `subscribers: ['bookings', 'notifications', 'audit', 'calendar'],
    description: 'A payment failed, for example`,
  },
  {
    file: 'lib/bus/catalog/bookings.ts',
    from: `    description: 'A booking was moved to another time.',
    version: 1,`,
    to: `    description: 'A booking was moved to another time.',
    version: 2,`,
  },
];

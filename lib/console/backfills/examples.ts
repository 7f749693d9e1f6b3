// The answers that OpenAPI shows.

export const NOT_LISTED =
  'This release’s catalog does not list leger for payment.captured. Did you mean ledger? Nothing was written.';

const ID = '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21';
const SUBSCRIPTION = { topic: 'payment.captured', subscriber: 'ledger', since: '2026-01-22T09:31:00.000Z' };

export const PREVIEW = {
  generatedAt: '2026-02-21T09:31:00.000Z',
  request: { ...SUBSCRIPTION, perMinute: 1000, expectedCount: 12_000 },
  backfillId: ID,
  ...SUBSCRIPTION,
  matched: 12_000,
  oldestAt: '2026-01-22T09:40:00.000Z',
  newestAt: '2026-02-21T08:12:00.000Z',
  perMinute: 1000,
  estimatedSeconds: 720,
  newerDelivered: 0,
  newerWaiting: 12,
  others: 3,
  attached: true,
  paused: true,
  underWay: null,
  pruned: { events: 340, firstDay: '2026-01-22', lastDay: '2026-01-22', uncountedBefore: null },
};

export const STARTED = {
  backfillId: ID,
  ...SUBSCRIPTION,
  matched: 12_000,
  written: 1000,
  perMinute: 1000,
  endedAt: null,
};

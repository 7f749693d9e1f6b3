import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { NO_SINCE } from '../kit/replay-request.ts';

// The answers that OpenAPI shows.

const PREVIEW = {
  generatedAt: '2026-02-21T09:31:00.000Z',
  request: {
    topic: 'payment.dispute.closed',
    since: '24h',
    include: 'dead_letters',
    until: '2026-02-21T09:31:00.000000Z',
    expectedCount: 2,
  },
  replayId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21',
  topic: 'payment.dispute.closed',
  matched: 2,
  isAll: false,
  dismissed: 0,
  unmatched: [],
  error: null,
  createdFrom: '2026-02-21T09:30:00.000Z',
  createdTo: '2026-02-21T09:30:00.020Z',
  endedFrom: '2026-02-21T09:30:00.420Z',
  endedTo: '2026-02-21T09:30:00.460Z',
  subscriptions: [
    {
      topic: 'payment.dispute.closed',
      subscriber: 'accounting',
      count: 2,
      skipped: 0,
      others: 2,
      attached: true,
      paused: false,
      isStillFailing: true,
      lastDeliveredAt: null,
      lastFailedAt: '2026-02-21T09:30:00.460Z',
      lastError: { kind: 'permanent', message: 'the subscriber answered 410: account closed' },
    },
  ],
  leftOut: [],
  planned: 0,
  earlier: null,
  estimatedSeconds: null,
};

export const SHOWN = {
  'of-a-day': {
    summary: 'The dead letters of one topic of the last day',
    parameters: { topic: 'payment.dispute.closed', since: '24h' },
    answer: answered(PREVIEW),
  },
  'chosen-ones': {
    summary: 'Deliveries by their ids',
    parameters: {
      deliveryIds: [
        '00000000-0000-7000-8000-000000000000.accounting',
        '00000000-0000-7000-8000-000000000000.ledger',
      ],
    },
    answer: answered({
      ...PREVIEW,
      request: {
        deliveryIds: ['00000000-0000-7000-8000-000000000000.accounting'],
        include: 'dead_letters',
        expectedCount: 0,
      },
      topic: null,
      matched: 0,
      createdFrom: null,
      createdTo: null,
      endedFrom: null,
      endedTo: null,
      subscriptions: [],
      unmatched: ['00000000-0000-7000-8000-000000000000.accounting'],
    }),
  },
  'without-a-window': {
    summary: 'Without a window',
    parameters: { topic: 'payment.dispute.closed' },
    answer: invalid('since', 'custom', NO_SINCE),
  },
};

export const BEGUN = {
  counted: {
    summary: 'A dry run',
    json: { topic: 'payment.dispute.closed', since: '24h', dryRun: true },
    answer: answered({ ...PREVIEW, replayId: null, since: '24h', replayed: 0 }),
  },
  'of-a-day': {
    summary: 'The dead letters of one topic of the last day',
    json: { topic: 'payment.dispute.closed', since: '24h', reason: 'Accounting is back.' },
    answer: answered({
      replayId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21',
      topic: 'payment.dispute.closed',
      since: '24h',
      matched: 2,
      replayed: 2,
    }),
  },
  'already-replayed': {
    summary: 'Deliveries that were replayed already',
    json: { deliveryIds: ['00000000-0000-7000-8000-000000000000.accounting'] },
    answer: answered({
      replayId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d23',
      topic: null,
      since: null,
      matched: 0,
      replayed: 0,
      why: 'The selected deliveries are not dead-lettered.',
    }),
  },
  'another-number': {
    summary: 'The number that matches differs from the expected one',
    json: { topic: 'support.incident.declared', since: '24h', expectedCount: 1000 },
    answer: refused('count_changed', {
      detail: '0 deliveries match, not 1000: check them again before you replay.',
    }),
  },
  'a-subscriber-not-listed': {
    summary: 'A subscriber that the catalog does not list',
    json: { topic: 'payment.dispute.closed', subscriber: 'calendar', since: '24h' },
    answer: refused('no_such_subscription', {
      detail:
        'This release’s catalog does not list calendar for payment.dispute.closed: ask a release that does, or list it again. Nothing was replayed.',
    }),
  },
  paced: {
    summary: 'A thousand a minute',
    json: { topic: 'payment.dispute.closed', since: '24h', include: 'all', perMinute: 1000 },
    answer: answered({
      replayId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d22',
      topic: 'payment.dispute.closed',
      since: '24h',
      matched: 5000,
      replayed: 16,
    }),
  },
  'a-pace-of-nothing': {
    summary: 'A pace that is too slow',
    json: { topic: 'payment.dispute.closed', since: '24h', perMinute: 0 },
    answer: invalid('perMinute', 'too_small', 'expected a whole number of deliveries a minute, 1 to 1000000'),
  },
  'an-unknown-unit': {
    summary: 'A window with an unknown unit',
    json: { topic: 'payment.dispute.closed', since: '1y' },
    answer: invalid(
      'since',
      'custom',
      'expected a time span such as 90m, 24h or 7d (units s, m, h, d, w), at most ten years',
    ),
  },
};

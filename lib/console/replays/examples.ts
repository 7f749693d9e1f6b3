import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { NO_SINCE } from '../kit/replay-request.ts';

// The answers that OpenAPI shows.

export const SHOWN = {
  'of-a-day': {
    summary: 'The dead letters of one topic of the last day',
    parameters: { topic: 'payment.dispute.closed', since: '24h' },
    answer: answered(),
  },
  'chosen-ones': {
    summary: 'Deliveries by their ids',
    parameters: {
      deliveryIds: [
        '00000000-0000-7000-8000-000000000000.accounting',
        '00000000-0000-7000-8000-000000000000.ledger',
      ],
    },
    answer: answered(),
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
    answer: answered(),
  },
  'of-a-day': {
    summary: 'The dead letters of one topic of the last day',
    json: { topic: 'payment.dispute.closed', since: '24h', reason: 'Accounting is back.' },
    answer: answered(),
  },
  'already-replayed': {
    summary: 'Deliveries that were replayed already',
    json: { deliveryIds: ['00000000-0000-7000-8000-000000000000.accounting'] },
    answer: answered(),
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
    answer: answered(),
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

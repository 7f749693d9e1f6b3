// The answers that OpenAPI shows.

export const REASON = {
  missing: 'expected a reason; it is kept in the operator log',
} as const;

const ID = '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21';

export const PREVIEW = {
  generatedAt: '2026-02-21T09:31:00.000Z',
  request: { subjects: ['usr_3071'], erasureId: ID },
  events: 14,
  topics: [
    { topic: 'booking.created', events: 9 },
    { topic: 'user.profile.updated', events: 4 },
    { topic: 'user.signed_up', events: 1 },
  ],
  timers: 1,
  pending: [{ topic: 'booking.created', subscriber: 'intelligence', count: 2 }],
  names: [
    { name: 'usr_3071', origin: 'asked' as const },
    { name: 'k…@…', origin: 'linked' as const },
  ],
  notSearched: ['review.submitted', 'webhook.cardpayments.received'],
  searched: 48_213,
  isComplete: true,
};

export const ENDED = {
  generatedAt: '2026-02-21T09:31:22.000Z',
  erasureId: ID,
  subjects: ['usr_3071'],
  exact: false,
  requestedAt: '2026-02-21T09:31:20.000Z',
  requestedBy: 'kari@solvik.example.no',
  reason: 'Request 2026-114 of 20 February.',
  state: 'ended' as const,
  found: 14,
  events: 14,
  deliveries: 3,
  notifications: 9,
  texts: 1,
  keysKept: 0,
  endedAt: '2026-02-21T09:31:21.000Z',
  searched: 48_213,
  about: 48_213,
};

const { generatedAt, searched: _, about: __, ...item } = ENDED;

export const LIST = { generatedAt, items: [item], nextCursor: null };

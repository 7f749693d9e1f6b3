import { answered, invalid } from '../../platform/http/operation.ts';
import { webhooksPath } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { webhooksDoc } from './doc.ts';
import { webhookPage } from './fields.ts';
import { webhookFilters, webhookQuery } from './query.ts';
import { readWebhooks } from './read.ts';
import { meaningOf } from './reasons.ts';

const REFUSED = {
  provider: 'cardpayments',
  reason: 'signature_mismatch',
  meaning: meaningOf('signature_mismatch'),
};

const listWebhooks = view({
  id: 'listWebhooks',
  path: webhooksPath(),
  summary: 'List what providers sent: receipts with their events, refusals, and what was set aside',
  query: webhookQuery,
  answer: webhookPage,
  problems: ['validation_failed'],
  examples: {
    'of-a-provider': {
      summary: 'What one provider sent',
      parameters: { provider: 'cardpayments', limit: 10 },
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        filters: { provider: 'cardpayments', id: null, limit: 10 },
        providers: [
          {
            provider: 'cardpayments',
            endpoint: 'configured',
            scheme: 'stripe',
            lastReceivedAt: '2026-02-21T09:30:00.000Z',
            refusedToday: 3,
            setAside: 1,
            isMoreSetAside: false,
            reconciliation: {
              setting: 'on',
              checkedAt: '2026-02-21T09:28:00.000Z',
              nextAt: '2026-02-21T09:33:00.000Z',
              found: 2,
              foundAt: '2026-02-20T14:03:00.000Z',
              failures: 0,
              lastError: { at: '2026-02-20T13:58:00.000Z', message: 'answered 429: too many requests' },
            },
          },
        ],
        receipts: {
          items: [
            {
              provider: 'cardpayments',
              providerEventId: 'evt_1QxK2mCaptured',
              eventType: 'payment_intent.succeeded',
              receivedAt: '2026-02-21T09:30:00.000Z',
              duplicates: 1,
              mismatches: 0,
              lastDuplicateAt: '2026-02-21T09:30:04.000Z',
              reconciledAt: null,
              eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
              state: 'delivered',
              became: 'acted_on',
              why: null,
              emitted: [{ eventId: '019c7f3e-5d21-7b02-9f6c-3a1c0e8d5b66', topic: 'payment.captured' }],
            },
          ],
          nextCursor: null,
        },
        refusals: {
          byReason: [{ ...REFUSED, today: 3, last30Days: 5, lastAt: '2026-02-21T09:20:00.000Z' }],
          items: [{ ...REFUSED, refusedAt: '2026-02-21T09:20:00.000Z' }],
          nextCursor: null,
        },
        setAside: {
          items: [
            {
              provider: 'cardpayments',
              providerEventId: 'evt_1QxK2mCaptured',
              eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
              intentId: 'pi_3QxSolvik48213',
              outcome: 'captured',
              reason: 'no_intent',
              detail: null,
              setAsideAt: '2026-02-21T09:30:00.100Z',
              unclaimedAt: '2026-02-24T09:30:00.100Z',
            },
          ],
          nextCursor: null,
        },
      }),
    },
    'by-its-id': {
      summary: 'One webhook, by the provider’s id',
      parameters: { id: 'evt_of_nobody' },
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        filters: { provider: null, id: 'evt_of_nobody', limit: 50 },
        providers: [],
        receipts: { items: [], nextCursor: null },
        refusals: { byReason: [], items: [], nextCursor: null },
        setAside: { items: [], nextCursor: null },
      }),
    },
    'an-unknown-provider': {
      summary: 'A provider that does not exist',
      parameters: { provider: 'postcards' },
      answer: invalid(
        'provider',
        'custom',
        'expected one of cardpayments, walletpayments, identityprovider, unknown, or a further account such as cardpayments_2',
      ),
    },
  },
  handle: async ({ query, bus }) => await readWebhooks(await bus.database(), bus.webhooks(), query),
  says: webhooksDoc,
  command: {
    name: 'webhooks',
    summary: 'list what providers sent: received, refused, set aside, and what never came',
    notes: [
      'Received webhooks are listed as far back as their events are kept; --id finds any. Of each day, provider and reason the newest 20 refusals are listed, and all are counted. No bodies are shown.',
    ],
    filters: webhookFilters,
    listed: 10,
    examples: [
      ['webhooks', 'the providers, and what they sent last'],
      ['webhooks --provider cardpayments', 'those of one provider'],
      ['webhooks --id evt_1QxK2m', 'whether this webhook was received'],
    ],
  },
});

export const webhookViews = [listWebhooks];

import { answered, invalid } from '../../platform/http/operation.ts';
import { webhooksPath } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { webhooksDoc } from './doc.ts';
import { webhookPage } from './fields.ts';
import { webhookFilters, webhookQuery } from './query.ts';
import { readWebhooks } from './read.ts';

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
      answer: answered(),
    },
    'by-its-id': {
      summary: 'One webhook, by the provider’s id',
      parameters: { id: 'evt_of_nobody' },
      answer: answered(),
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

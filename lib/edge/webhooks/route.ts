import * as z from 'zod';

import { providers } from '../../platform/config.ts';
import { answered, JSON_TYPE, refused } from '../../platform/http/operation.ts';
import type { Operation } from '../../platform/http/operation.ts';
import { bodyProblems } from './body.ts';

/** The answer to a provider. */
export type Received = z.output<typeof received>;

const received = z
  .object({
    received: z.literal(true),
    duplicate: z
      .boolean()
      .meta({ description: 'Whether the event was received earlier; a duplicate is not stored again.' }),
    eventId: z.string(),
  })
  .meta({ id: 'Received' });

/** Far above any provider's event; the platform's own limit is 4.5 MB. */
const LIMIT_BYTES = 256 * 1024;

const LOGIN = {
  type: 'login.succeeded',
  data: { subject: '7f1c2a9e-5b0d-4e52-9a37-1d4f6c8be210', method: 'bank-id' },
};

export const webhookRoute = {
  id: 'receiveWebhook',
  method: 'post',
  path: '/webhooks/{provider}',
  tag: 'Webhooks',
  summary: 'Receive a provider’s event',
  description:
    'Answers 200 once the event is stored, also for a duplicate. Send the event again after any other answer. The headers are those of Standard Webhooks, the default scheme. WEBHOOK_<PROVIDER>_SCHEME selects another: `stripe` signs in Stripe-Signature, `vipps` in Authorization, `criipto` in X-Criipto-Signature, `github-style` in X-Hub-Signature-256. The timestamp may be off by 300 seconds. Unknown event types are stored and ignored.',
  access: 'provider',
  parameters: [
    {
      in: 'path',
      name: 'provider',
      description: 'The provider, or a further account of it, such as `cardpayments_2`.',
      schema: z.string().regex(new RegExp(`^(?:${providers.join('|')})(?:_\\d{1,2})?$`)),
    },
    { in: 'header', name: 'webhook-id', description: 'The event’s id.', schema: z.string().max(255) },
    {
      in: 'header',
      name: 'webhook-timestamp',
      description: 'The time of signing, in Unix seconds.',
      schema: z.string().regex(/^\d+$/),
    },
  ],
  body: {
    schema: z.looseObject({
      type: z
        .string()
        .optional()
        .meta({ description: 'The event’s type; `name` or `event` in other schemes.' }),
    }),
    limitBytes: LIMIT_BYTES,
  },
  answers: [{ status: 200, description: 'The event is stored.', content: { [JSON_TYPE]: received } }],
  problems: [
    'invalid_event_id',
    ...bodyProblems,
    'incomplete_body',
    'invalid_signature',
    'unknown_provider',
    'body_too_large',
    'unsupported_media_type',
    'unsupported_encoding',
    'webhook_not_configured',
    'database_unavailable',
  ],
  examples: {
    'a-login': {
      summary: 'A sign-in',
      parameters: { provider: 'identityprovider', 'webhook-id': 'idp_01J9ZK3V7Q' },
      json: LOGIN,
      answer: answered({ received: true, duplicate: false, eventId: 'idp_01J9ZK3V7Q' }),
    },
    'the-same-again': {
      summary: 'The same event, sent again',
      parameters: { provider: 'identityprovider', 'webhook-id': 'idp_01J9ZK3V7Q' },
      json: LOGIN,
      answer: answered({ received: true, duplicate: true, eventId: 'idp_01J9ZK3V7Q' }),
    },
    'no-object': {
      summary: 'JSON that is not an object',
      parameters: { provider: 'identityprovider', 'webhook-id': 'idp_01J9ZK3V7R' },
      json: ['login.succeeded'],
      answer: refused('not_an_object'),
    },
    unsigned: {
      summary: 'Without a signature',
      parameters: { provider: 'identityprovider', 'webhook-id': 'idp_01J9ZK3V7Q' },
      json: LOGIN,
      answer: refused('invalid_signature'),
    },
    'an-unknown-provider': {
      summary: 'From an unknown provider',
      parameters: { provider: 'postcards' },
      json: LOGIN,
      answer: refused('unknown_provider'),
    },
  },
} satisfies Operation;

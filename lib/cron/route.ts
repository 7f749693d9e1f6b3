import * as z from 'zod';

import { JSON_TYPE, refused } from '../http/operation.ts';
import type { Operation } from '../http/operation.ts';
import { CRON_BUDGET_MS } from '../lifetime.ts';
import type { RelayReport } from '../relay/relay.ts';
import { SECOND } from '../time.ts';
import type { Performed } from './duties.ts';

const count = z.int().nonnegative();

export const relayRun = z
  .object({
    fannedOut: count.meta({ description: 'Events that were fanned out.' }),
    delivered: count,
    failed: count.meta({ description: 'Failed attempts that will be retried.' }),
    waited: count.meta({ description: 'Attempts whose handler asked to wait.' }),
    deadLettered: count,
    leasesLost: count.meta({ description: 'Lanes that another relay took.' }),
    ticks: count.meta({ description: 'Turns that the relay took.' }),
    nextRetryAt: z
      .number()
      .nullable()
      .meta({ description: 'The earliest retry that the relay scheduled last, in milliseconds since 1970.' }),
    struck: z.array(z.iso.date()).meta({ description: 'Days whose daily clock was due.' }),
    pruned: z.object({ events: count, deliveries: count }),
    undone: z
      .array(z.string())
      .meta({ description: 'Duties that failed, such as pruning; the log says why.' }),
  })
  .meta({
    id: 'RelayRun',
    description: 'The results of the relay and the duties in one run of the cron.',
  }) satisfies z.ZodType<RelayReport & Performed>;

export type RelayRun = z.output<typeof relayRun>;

export const cronRoute = {
  id: 'runRelay',
  method: 'get',
  path: '/api/cron/relay',
  tag: 'Relay',
  summary: `Relay for ${CRON_BUDGET_MS / SECOND} seconds`,
  description:
    'The platform’s cron calls it once a minute. Runs may be missed, doubled or overlap: they share the work.',
  access: 'cron',
  answers: [{ status: 200, description: 'The relay ran.', content: { [JSON_TYPE]: relayRun } }],
  problems: ['unauthorized', 'cron_not_configured', 'relay_off'],
  examples: {
    'without-the-secret': {
      summary: 'Without the secret',
      answer: refused('unauthorized', {
        detail: 'The Authorization header does not carry the cron secret.',
      }),
    },
  },
} satisfies Operation;

const accepted = z
  .object({ accepted: z.literal(true) })
  .meta({ id: 'KickAccepted', description: 'The relay looks for due deliveries now.' });

export const kickRoute = {
  id: 'kickRelay',
  method: 'post',
  path: '/api/kick',
  tag: 'Relay',
  summary: 'Relay at once',
  description:
    'A producer in another repository calls it after a commit, so that its event does not wait for the relay’s next tick. Answers before anything is delivered. Send no body: a kick says nothing about its event. It is signed by Standard Webhooks, of which the timestamp may be off by 300 seconds.',
  access: 'producer',
  parameters: [
    { in: 'header', name: 'webhook-id', description: 'The kick’s own id.', schema: z.string().max(255) },
    {
      in: 'header',
      name: 'webhook-timestamp',
      description: 'The time of signing, in Unix seconds.',
      schema: z.string().regex(/^\d+$/),
    },
  ],
  answers: [{ status: 202, description: 'The relay looks now.', content: { [JSON_TYPE]: accepted } }],
  problems: [
    'incomplete_body',
    'invalid_signature',
    'relay_off',
    'body_too_large',
    'rate_limited',
    'kick_not_configured',
  ],
  examples: {
    'after-a-commit': {
      summary: 'After a commit',
      parameters: { 'webhook-id': 'kick_01J9ZK3V7Q' },
      answer: { status: 202, type: JSON_TYPE, value: { accepted: true } },
    },
    unsigned: {
      summary: 'Without a signature',
      parameters: { 'webhook-id': 'kick_01J9ZK3V7R' },
      answer: refused('invalid_signature'),
    },
  },
} satisfies Operation;

import * as z from 'zod';

import { subscriberNames } from '../../bus/catalog/catalog.ts';
import type { RelayReport } from '../../bus/relay/relay.ts';
import { JSON_TYPE, invalid, refused } from '../../platform/http/operation.ts';
import type { Operation } from '../../platform/http/operation.ts';
import { CRON_BUDGET_MS } from '../../platform/lifetime.ts';
import { nearest } from '../../platform/nearest.ts';
import { SECOND } from '../../platform/time.ts';
import type { Performed } from './duties.ts';

const count = z.int().nonnegative();

const relayRun = z
  .object({
    placed: count.meta({ description: 'Events that got their places.' }),
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

export const KICK_LIMIT_BYTES = 1024;

export const kickBody = z.object({
  subscriber: z
    .string()
    .check(({ value, issues }) => {
      if (subscriberNames().some((name) => name === value)) return;
      const meant = nearest(value, subscriberNames());
      const advice =
        meant === null ? `expected one of ${subscriberNames().join(', ')}` : `did you mean '${meant}'?`;
      const message = `unknown subscriber; ${advice}`;
      issues.push({ code: 'custom', input: value, message });
    })
    .optional()
    .meta({
      enum: subscriberNames(),
      description:
        'A component elsewhere that is back: if its deliveries wait in an outage, it is probed now.',
    }),
});

export const kickRoute = {
  id: 'kickRelay',
  method: 'post',
  path: '/api/kick',
  tag: 'Relay',
  summary: 'Relay at once',
  description:
    'A producer in another repository calls it after a commit, so that its event does not wait for the relay’s next tick; a component elsewhere calls it at its start, and names itself, so that it is probed at once after an outage. Answers before anything is delivered. It is signed by Standard Webhooks, of which the timestamp may be off by 300 seconds.',
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
  body: { schema: kickBody, isOptional: true, limitBytes: KICK_LIMIT_BYTES },
  answers: [{ status: 202, description: 'The relay looks now.', content: { [JSON_TYPE]: accepted } }],
  problems: [
    'validation_failed',
    'incomplete_body',
    'unsupported_media_type',
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
    'at-the-start-of-a-component': {
      summary: 'At the start of a component elsewhere',
      parameters: { 'webhook-id': 'kick_01J9ZK3V7S' },
      json: { subscriber: 'ledger' },
      answer: { status: 202, type: JSON_TYPE, value: { accepted: true } },
    },
    'of-an-unknown-component': {
      summary: 'Of an unknown component',
      parameters: { 'webhook-id': 'kick_01J9ZK3V7T' },
      json: { subscriber: 'ledgr' },
      answer: invalid('subscriber', 'custom', "unknown subscriber; did you mean 'ledger'?"),
    },
    unsigned: {
      summary: 'Without a signature',
      parameters: { 'webhook-id': 'kick_01J9ZK3V7R' },
      answer: refused('invalid_signature'),
    },
  },
} satisfies Operation;

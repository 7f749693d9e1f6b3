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

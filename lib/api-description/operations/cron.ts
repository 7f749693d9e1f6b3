import * as z from 'zod';

import type { RelayReport } from '../../relay/relay.ts';
import type { Pruned } from '../../retention/prune.ts';
import { count } from '../answers/values.ts';
import { JSON_TYPE, refused } from '../operation.ts';
import type { Operation } from '../operation.ts';

const relayRun = z
  .object({
    fannedOut: count.meta({ description: 'Events that were given their deliveries.' }),
    delivered: count,
    failed: count.meta({ description: 'Attempts that failed and will be made again.' }),
    waited: count.meta({ description: 'Attempts whose handler asked for time.' }),
    deadLettered: count,
    leasesLost: count.meta({ description: 'Lanes that another relay took.' }),
    ticks: count,
    nextRetryAt: z.number().nullable().meta({ description: 'Milliseconds since 1970.' }),
    struck: z.array(z.iso.date()).meta({ description: 'Days whose daily clock was due.' }),
    pruned: z.object({ events: count, deliveries: count }),
  })
  .meta({ id: 'RelayRun', description: 'What a run of the relay did.' }) satisfies z.ZodType<
  RelayReport & { readonly struck: readonly string[]; readonly pruned: Pruned }
>;

export const runRelay: Operation = {
  id: 'runRelay',
  method: 'get',
  path: '/api/cron/relay',
  tag: 'Relay',
  summary: 'Relay for 55 seconds',
  description:
    'The platform’s cron calls it once a minute. Runs may be missed, doubled or overlap: they share the work.',
  access: 'cron',
  answers: [{ status: 200, description: 'What it did.', content: { [JSON_TYPE]: relayRun } }],
  problems: ['unauthorized', 'cron_not_configured'],
  examples: {
    'without-the-secret': {
      summary: 'Without the secret',
      answer: refused('unauthorized', {
        detail: 'The Authorization header does not hold the cron secret.',
      }),
    },
  },
};

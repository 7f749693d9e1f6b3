import * as z from 'zod';

import { answered, JSON_TYPE } from '../http/operation.ts';
import type { Operation } from '../http/operation.ts';

/** What anyone may know of this process. */
export type Health = z.output<typeof health>;

const health = z
  .object({
    ok: z.literal(true),
    uptime: z.number().min(0).meta({ description: 'Seconds since this process started.' }),
    llmConfigured: z.boolean(),
    emailConfigured: z.boolean(),
    auditConfigured: z.boolean().meta({ description: 'Whether the audit trail has a database to be in.' }),
  })
  .meta({ id: 'Health' });

export const healthRoute = {
  id: 'readHealth',
  method: 'get',
  path: '/api/health',
  tag: 'Health',
  summary: 'See whether it runs, and what it is set up for',
  description: 'Asks no other service: a probe neither waits nor wakes a database.',
  access: 'anyone',
  cors: 'any',
  answers: [{ status: 200, description: 'It runs.', content: { [JSON_TYPE]: health } }],
  problems: [],
  examples: {
    'a-probe': {
      summary: 'A probe',
      answer: answered({
        ok: true,
        uptime: 12.34,
        llmConfigured: true,
        emailConfigured: true,
        auditConfigured: true,
      }),
    },
  },
} satisfies Operation;

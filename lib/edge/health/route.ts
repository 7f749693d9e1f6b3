import * as z from 'zod';

import { answered, JSON_TYPE } from '../../platform/http/operation.ts';
import type { Operation } from '../../platform/http/operation.ts';

/** The public state of this process. */
export type Health = z.output<typeof health>;

const health = z
  .object({
    ok: z.literal(true),
    uptime: z.number().min(0).meta({ description: 'Seconds since this process started.' }),
    llmConfigured: z.boolean(),
    emailConfigured: z.boolean(),
    auditConfigured: z
      .boolean()
      .meta({ description: 'Whether a database is configured for the audit trail.' }),
  })
  .meta({ id: 'Health' });

export const healthRoute = {
  id: 'readHealth',
  method: 'get',
  path: '/api/health',
  tag: 'Health',
  summary: 'Check that the server runs, and what is configured',
  description: 'Calls no other service, so a probe neither waits nor wakes a database.',
  access: 'anyone',
  cors: 'any',
  answers: [{ status: 200, description: 'The server runs.', content: { [JSON_TYPE]: health } }],
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

import * as z from 'zod';
import { topic } from './topic.ts';
import { day, id, instant } from './values.ts';

export const clocks = {
  'cron.daily.06_00': topic({
    producer: 'system',
    subscribers: ['intelligence', 'reporting', 'accounting'],
    description: 'Every day at 06:00 UTC: content agent, audits, e-invoice batches.',
    version: 1,
    listed: true,
    payload: z.object({ day, scheduledFor: instant }),
    example: { day: '2026-03-02', scheduledFor: '2026-03-02T06:00:00Z' },
  }),

  'clock.invoice_run.due': topic({
    producer: 'system',
    subscribers: ['invoicing'],
    description: "A tenant's scheduled invoice run is due.",
    version: 1,
    payload: z.object({ tenantId: id, invoiceRunId: id, scheduledFor: instant }),
    example: {
      tenantId: 'tnt_solvik',
      invoiceRunId: 'run_2026_03',
      scheduledFor: '2026-03-02T05:00:00Z',
    },
  }),

  'clock.season_deadline.passed': topic({
    producer: 'system',
    subscribers: ['seasons'],
    description: 'The application deadline of a season passed.',
    version: 1,
    payload: z.object({ tenantId: id, seasonId: id, scheduledFor: instant }),
    example: {
      tenantId: 'tnt_solvik',
      seasonId: 'ssn_2026_2027',
      scheduledFor: '2026-04-15T21:59:59Z',
    },
  }),
};

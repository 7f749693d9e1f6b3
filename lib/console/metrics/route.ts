import * as z from 'zod';

import type { Operation } from '../../platform/http/operation.ts';

/** Prometheus' text format. @see https://prometheus.io/docs/instrumenting/exposition_formats/ */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export const metricsRoute = {
  id: 'readMetrics',
  method: 'get',
  path: '/platform/metrics',
  tag: 'Event bus',
  summary: 'Get the bus’s metrics for Prometheus',
  access: 'event-bus:read',
  answers: [
    {
      status: 200,
      description: 'Counts and ages, by topic and subscriber.',
      content: { [METRICS_TYPE]: z.string().regex(/^# HELP /) },
    },
  ],
  problems: [
    'unauthorized',
    'invalid_token',
    'insufficient_scope',
    'operators_not_configured',
    'no_role',
    'key_server_unavailable',
    'directory_unavailable',
  ],
} satisfies Operation;

import * as z from 'zod';

import { sendTestAlert } from '../../components/alerts/send-alerts.ts';
import { answered } from '../../platform/http/operation.ts';
import { HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { testAlertPage } from './page.ts';
import { testResult } from './read.ts';

export const testAlert = operatorRoute({
  id: 'sendTestAlert',
  path: `${HOME}/alerts/test`,
  scope: 'event-bus:replay',
  summary: 'Send a test alert on every configured channel',
  body: z.object({}),
  answer: testResult,
  examples: {
    'nobody-is-notified': {
      summary: 'Where no channel is configured',
      json: {},
      answer: answered({ channels: [] }),
    },
  },
  handle: async ({ bus }) => ({ channels: [...(await sendTestAlert(bus.alerts()))] }),
  page: testAlertPage,
});

export const alertRoutes = [testAlert];

import * as z from 'zod';

import { sendTestAlert } from '../../components/alerts/send-alerts.ts';
import { answered } from '../../platform/http/operation.ts';
import { action } from '../kit/action.ts';
import { HOME } from '../kit/links.ts';
import { quantity } from '../kit/words.ts';
import { testAlertPage } from './page.ts';
import { testResult } from './read.ts';

const testAlert = action({
  name: 'test-alert',
  id: 'sendTestAlert',
  path: `${HOME}/alerts/test`,
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
  button: 'Send a test alert',
  command: {
    summary: 'send a test alert to where alerts go',
    notes: [
      'Needs the scope event-bus:replay. Exits with 1 if a channel did not accept it, or none is configured: ALERT_EMAIL and ALERT_WEBHOOK_URL of the server say where alerts go.',
    ],
    examples: [['test-alert', 'a mail and a message in the chat, whichever is configured']],
    done({ channels }) {
      if (channels.length === 0)
        return {
          isGood: false,
          words: 'Nobody is notified: the server has neither ALERT_EMAIL nor ALERT_WEBHOOK_URL.',
          next: 'Set one of them; docs/configuration.md lists what else it needs.',
        };
      const failed = channels.filter(({ error }) => error !== null).length;
      return {
        isGood: failed === 0,
        each: channels.map(({ channel, to, error }) => [
          error === null,
          `${channel} to ${to}: ${error ?? 'accepted'}`,
        ]),
        ...(failed > 0 && { words: `${quantity(failed, 'channel')} failed.` }),
      };
    },
  },
});

export const alertActions = [testAlert];

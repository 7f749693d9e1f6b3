import * as z from 'zod';

import type { ChannelName } from '../../components/alerts/claim-alerts.ts';
import { sendTestAlert } from '../../components/alerts/send-alerts.ts';
import { answered, invalid } from '../../platform/http/operation.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { action } from '../kit/action.ts';
import { HOME } from '../kit/links.ts';
import { capitalize, quantity } from '../kit/words.ts';
import { SET_ONE, VARIABLES, answerWords, channelWords } from './lines.ts';
import { testAlertPage } from './page.ts';
import { channelName, testResult } from './read.ts';

function notConfigured(channel: ChannelName): string {
  return `expected a configured channel; ${channel} needs ${VARIABLES[channel]}`;
}

const testAlert = action({
  name: 'test-alert',
  id: 'sendTestAlert',
  path: `${HOME}/alerts/test`,
  summary: 'Send a test alert on every configured channel',
  body: z.object({
    channel: channelName.optional().meta({ description: 'Only this one. It must be configured.' }),
  }),
  answer: testResult,
  examples: {
    'nobody-is-notified': {
      summary: 'Where no channel is configured',
      json: {},
      answer: answered(),
    },
    'not-configured': {
      summary: 'A channel that is not configured',
      json: { channel: 'slack' },
      answer: invalid('channel', 'invalid_type', notConfigured('slack')),
    },
  },
  handle: async ({ body: { channel }, bus }) => {
    const channels = [...(await sendTestAlert(bus.alerts(), channel))];
    if (channel !== undefined && channels.length === 0)
      requireValid({ channel }, z.object({ channel: z.never(notConfigured(channel)) }));
    return { channels };
  },
  page: testAlertPage,
  button: 'Send a test alert',
  command: {
    summary: 'send a test alert to where alerts go',
    notes: [
      'Needs the scope event-bus:replay. Says what each channel answered. Exits with 1 if one did not accept it, or none is configured.',
    ],
    examples: [
      [
        'test-alert',
        'a mail, a message in the chat, an incident of PagerDuty that ends at once: whichever is configured',
      ],
    ],
    done({ channels }) {
      if (channels.length === 0)
        return {
          isGood: false,
          words: 'Nobody is notified: no channel is configured on the server.',
          next: `${capitalize(SET_ONE)} there; docs/configuration.md lists what else each needs.`,
        };
      const failed = channels.filter(({ error }) => error !== null).length;
      return {
        isGood: failed === 0,
        each: channels.map((tried) => [
          tried.error === null,
          `${channelWords(tried.channel)} to ${tried.to}: ${answerWords(tried)}`,
        ]),
        ...(failed > 0 && { words: `${quantity(failed, 'channel')} failed.` }),
      };
    },
  },
});

export const alertActions = [testAlert];

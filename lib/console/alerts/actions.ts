import * as z from 'zod';

import type { ChannelName } from '../../components/alerts/claim-alerts.ts';
import { sendTestAlert } from '../../components/alerts/send-alerts.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { action } from '../kit/action.ts';
import { HOME } from '../kit/links.ts';
import { capitalize, joinNames, quantity } from '../kit/words.ts';
import { channelName, testResult } from './read.ts';
import { does } from '../kit/doc.ts';
import type { Block, Item } from '../kit/doc.ts';
import { say, whenAndAgo } from '../kit/document.ts';
import type { AlertState, TestAlert } from './read.ts';

/** Says where alerts go, what became of them, and who would notice a relay that stands still, with a test of each channel. */
export function alertsBlock({ channels, heartbeat, problems }: AlertState, now: string): Block {
  const items: Item[] = channels.map((channel) => channelItem(channel, now));
  if (channels.length === 0)
    items.push({ tone: 'fail', words: 'Nobody is notified of incidents', details: [SET_ONE] });
  items.push(
    heartbeat
      ? { tone: 'ok', words: 'The relay calls a watcher outside each minute', details: [] }
      : {
          tone: 'fail',
          words: 'Nobody outside notices a relay that stands still',
          details: ['set HEARTBEAT_URL'],
        },
    ...problems.map((words) => ({ tone: 'dead', words, details: [] }) as const),
  );
  return { id: 'alerts', title: 'Alerts', items };
}

/** The variables that say where alerts go. */
const VARIABLES = {
  mail: 'ALERT_EMAIL',
  slack: 'ALERT_SLACK_URL',
  teams: 'ALERT_TEAMS_URL',
  pagerduty: 'PAGERDUTY_ROUTING_KEY',
  webhook: 'ALERT_WEBHOOK_URL',
} as const;

/** `set ALERT_EMAIL, ALERT_SLACK_URL, … or ALERT_WEBHOOK_URL`. */
const SET_ONE = `set ${Object.values(VARIABLES)
  .join(', ')
  .replace(/, (?=\w+$)/, ' or ')}`;

const NAMES = { mail: 'mail', slack: 'Slack', teams: 'Teams', pagerduty: 'PagerDuty', webhook: 'webhook' };

/** Names a channel: `Slack`. */
export function channelWords(channel: ChannelName): string {
  return NAMES[channel];
}

/** Says what a channel answered to a test. */
function triedWords({ channel, to, error, answer }: TestAlert['channels'][number]): string {
  const name = `${NAMES[channel]} to ${to}`;
  // A workflow of Teams answers before it posts. One that fails is seen nowhere else.
  const note = channel === 'teams' ? '; if no card appears, the run history in Power Automate says why' : '';
  if (error === null) return `${name}: accepted, it answered ${answer}${note}`;
  const said = answer?.indexOf(': ') ?? -1;
  // The error has its status already.
  return `${name}: not accepted, ${said === -1 ? error : error + answer!.slice(said)}`;
}

function channelItem(one: AlertState['channels'][number], now: string): Item {
  const { channel, to, lastSentAt, unsent, givenUp, lastError } = one;
  const owed = [
    unsent > 0 && `${quantity(unsent, 'alert')} to be sent${lastError === null ? '' : ' again'}`,
    givenUp > 0 && `${quantity(givenUp, 'alert')} given up`,
  ].filter((words) => words !== false);
  return {
    tone: lastError === null ? 'ok' : 'dead',
    words: capitalize(`${NAMES[channel]} to ${to}`),
    details: [
      lastSentAt === null ? 'none sent yet' : say`last sent ${whenAndAgo(lastSentAt, now)}`,
      owed.length > 0 && `${joinNames(owed)}${lastError === null ? '' : `: ${lastError}`}`,
    ],
    acts: [does('test-alert', {}, { of: null, hidden: { channel }, button: `Test ${NAMES[channel]}` })],
  };
}

function notConfigured(channel: ChannelName): string {
  return `expected a configured channel; ${channel} needs ${VARIABLES[channel]}`;
}

const testAlert = action({
  name: 'test-alert',
  id: 'sendTestAlert',
  path: `${HOME}/alerts/test`,
  summary: 'Send a test alert on every configured channel',
  body: z.object({
    channel: channelName.optional().describe('Only this one. It must be configured.'),
  }),
  answer: testResult,
  handle: async ({ body: { channel }, bus }) => {
    const channels = [...(await sendTestAlert(bus.alerts(), channel))];
    if (channel !== undefined && channels.length === 0)
      requireValid({ channel }, z.object({ channel: z.never(notConfigured(channel)) }));
    return { channels };
  },
  button: 'Send a test alert',
  done({ channels }) {
    if (channels.length === 0)
      return {
        isGood: false,
        words: 'Nobody is notified: no channel is configured on the server.',
        next: `${capitalize(SET_ONE)} there; docs/configuration.md lists what else each needs.`,
      };
    return {
      isGood: channels.every(({ error }) => error === null),
      words: channels.map((tried) => `${capitalize(triedWords(tried))}.`).join(' '),
    };
  },
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
  },
});

export const alertActions = [testAlert];

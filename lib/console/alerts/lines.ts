import type { ChannelName } from '../../components/alerts/claim-alerts.ts';
import { html } from '../../platform/markup.ts';
import { phraseOf, say } from '../kit/document.ts';
import type { Phrase } from '../kit/document.ts';
import { ago, timeAndAgo } from '../kit/instants.ts';
import { joinNames, quantity } from '../kit/words.ts';
import type { AlertState, TestAlert } from './read.ts';

/** What is right with alerts, or wrong. */
export interface AlertLine {
  readonly tone: 'ok' | 'fail' | 'dead';
  readonly words: string;
  readonly details?: Phrase;
}

/** Says where alerts go, what became of them, and who would notice a relay that stands still. */
export function alertLines({ channels, heartbeat, problems }: AlertState, now: string): readonly AlertLine[] {
  return [
    ...(channels.length === 0 ? [NOBODY] : channels.map((channel) => channelLine(channel, now))),
    heartbeat ? WATCHED : UNWATCHED,
    ...problems.map((words) => ({ tone: 'dead' as const, words })),
  ];
}

/** The variables that say where alerts go. */
export const VARIABLES = {
  mail: 'ALERT_EMAIL',
  slack: 'ALERT_SLACK_URL',
  teams: 'ALERT_TEAMS_URL',
  pagerduty: 'PAGERDUTY_ROUTING_KEY',
  webhook: 'ALERT_WEBHOOK_URL',
} as const;

/** `set ALERT_EMAIL, ALERT_SLACK_URL, … or ALERT_WEBHOOK_URL`. */
export const SET_ONE = `set ${Object.values(VARIABLES)
  .join(', ')
  .replace(/, (?=\w+$)/, ' or ')}`;

const NOBODY: AlertLine = {
  tone: 'fail',
  words: 'nobody is notified of incidents',
  details: phraseOf(SET_ONE),
};
const WATCHED: AlertLine = { tone: 'ok', words: 'the relay calls a watcher outside each minute' };
const UNWATCHED: AlertLine = {
  tone: 'fail',
  words: 'nobody outside notices a relay that stands still',
  details: say`set ${code('HEARTBEAT_URL')}`,
};

function code(variable: string): Phrase {
  return { html: html`<code>${variable}</code>`, text: variable };
}

const NAMES = { mail: 'mail', slack: 'Slack', teams: 'Teams', pagerduty: 'PagerDuty', webhook: 'webhook' };

/** Names a channel: `Slack`. */
export function channelWords(channel: ChannelName): string {
  return NAMES[channel];
}

/** Says what a channel answered to a test. */
export function answerWords({ error, answer }: TestAlert['channels'][number]): string {
  if (error === null) return `accepted, it answered ${answer}`;
  const said = answer?.indexOf(': ') ?? -1;
  // The error has its status already.
  return said === -1 ? error : error + answer!.slice(said);
}

function channelLine(one: AlertState['channels'][number], now: string): AlertLine {
  const { channel, to, lastSentAt, unsent, givenUp, lastError } = one;
  const owed = [
    unsent > 0 && `${quantity(unsent, 'alert')} to be sent${lastError === null ? '' : ' again'}`,
    givenUp > 0 && `${quantity(givenUp, 'alert')} given up`,
  ].filter((words) => words !== false);
  const sent =
    lastSentAt === null
      ? 'none sent yet'
      : say`last sent ${{ html: timeAndAgo(lastSentAt, now), text: ago(lastSentAt, now) }}`;
  const left = owed.length > 0 && `${joinNames(owed)}${lastError === null ? '' : `: ${lastError}`}`;
  return {
    tone: lastError === null ? 'ok' : 'dead',
    words: `${channelWords(channel)} to ${to}`,
    details: say`${sent}${left && { html: html`<br />${left}`, text: `, ${left}` }}`,
  };
}

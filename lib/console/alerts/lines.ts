import { html } from '../../platform/markup.ts';
import { say } from '../kit/document.ts';
import type { Phrase } from '../kit/document.ts';
import { ago, timeAndAgo } from '../kit/instants.ts';
import { joinNames, quantity } from '../kit/words.ts';
import type { AlertState } from './read.ts';

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

const NOBODY: AlertLine = {
  tone: 'fail',
  words: 'nobody is notified of incidents',
  details: say`set ${code('ALERT_EMAIL')} or ${code('ALERT_WEBHOOK_URL')}`,
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
    words: `${channel} to ${to}`,
    details: say`${sent}${left && { html: html`<br />${left}`, text: `, ${left}` }}`,
  };
}

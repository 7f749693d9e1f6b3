import { readable } from '../../platform/config.ts';
import type { AlertSettings } from '../../platform/config.ts';
import type { Channel } from './channel.ts';
import { mailChannel } from './mail-channel.ts';
import { pagerDutyChannel } from './pagerduty-channel.ts';
import { slackChannel } from './slack-channel.ts';
import { teamsChannel } from './teams-channel.ts';
import { webhookChannel } from './webhook-channel.ts';

/** The configured channels. One whose variables are wrong is left out; `problemsOf` names it. */
export function channelsOf(settings: AlertSettings): readonly Channel[] {
  return [
    channelOf(() => settings.mail, mailChannel),
    channelOf(() => settings.slack, slackChannel),
    channelOf(() => settings.teams, teamsChannel),
    channelOf(() => settings.pagerDuty, pagerDutyChannel),
    channelOf(() => settings.webhook, webhookChannel),
  ].filter((channel) => channel !== undefined);
}

function channelOf<Settings>(
  read: () => Settings | undefined,
  make: (settings: Settings) => Channel,
): Channel | undefined {
  const settings = readable(read);
  return settings === undefined ? undefined : make(settings);
}

const PARTS = ['mail', 'slack', 'teams', 'pagerDuty', 'webhook', 'heartbeatUrl', 'publicUrl'] as const;

/** Says what is wrong with each variable that is; none of its values is repeated. */
export function problemsOf(settings: AlertSettings): readonly string[] {
  const problems: string[] = [];
  for (const part of PARTS)
    readable(
      () => settings[part],
      ({ message }) => problems.push(message),
    );
  return problems;
}

import type { AlertSettings } from '../../platform/config.ts';
import { signedHeaders, signingKey } from '../../platform/schemes/signing.ts';
import { instantOf } from '../../platform/time.ts';
import { idOf } from './channel.ts';
import type { Channel } from './channel.ts';
import type { AlertedIncident } from './claim-alerts.ts';
import { MOST_ENTRIES, fitted, moreOf } from './message.ts';
import type { Message } from './message.ts';
import { post } from './post.ts';

export function webhookChannel({ url, secret }: NonNullable<AlertSettings['webhook']>): Channel {
  return {
    name: 'webhook',
    // A chat's address is a password.
    to: new URL(url).host,
    async send(message) {
      const now = Date.now();
      const body = JSON.stringify(jsonOf(message, now));
      const headers = secret === undefined ? {} : signedHeaders(signingKey(secret), idOf(message), body, now);
      return await post({ url, body, headers, secrets: secret === undefined ? [] : [secret] });
    },
  };
}

/** Draws a message as JSON: `text` is what a chat shows, `data` is for programs. */
export function jsonOf(message: Message, at: number) {
  const { type, incidents, origin } = message;
  return {
    type,
    timestamp: instantOf(at),
    text: chatText(message),
    data: {
      environment: origin.environment,
      total: incidents.length,
      incidents: incidents
        .slice(0, MOST_ENTRIES)
        .map((incident, index) => dataOf(incident, message.entries[index]!.url)),
    },
  };
}

/** Slack cuts a longer text. */
const LONGEST_TEXT = 40_000;

/**
 * Draws a message as a chat's text. The three characters with a meaning in Slack's are escaped, so that an error can't
 * mention a channel or hide a link. Teams shows the same entities.
 *
 * @see https://docs.slack.dev/messaging/formatting-message-text/#escaping
 */
export function chatText(message: Message): string {
  return fitted(
    message,
    (some) => {
      const { subject, summary, entries } = some;
      const lines =
        summary === null
          ? entries.flatMap(({ text, url }) => [text, url])
          : [summary, ...entries.map(({ title, text, url }) => `\n${title}\n${text}\n${url}`)];
      const more = moreOf(some);
      const text = [subject, ...lines, ...(more ? [`\n${more.words}: ${more.url}`] : [])].join('\n');
      return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
    },
    ({ length }) => length <= LONGEST_TEXT,
  );
}

/** Writes an incident for programs. */
export function dataOf(incident: AlertedIncident, url: string) {
  return {
    id: incident.id,
    revision: incident.revision,
    change: incident.change,
    state: incident.state,
    topic: incident.topic || null,
    subscriber: incident.subscriber,
    kind: incident.kind,
    group: incident.group || null,
    message: incident.message,
    openedAt: instantOf(incident.openedAt),
    changedAt: instantOf(incident.changedAt),
    closedAt: incident.closedAt === null ? null : instantOf(incident.closedAt),
    times: incident.times,
    next: incident.next,
    blockedLanes: incident.blockedLanes,
    haltedLanes: incident.haltedLanes,
    nextProbeAt: incident.nextProbeAt === null ? null : instantOf(incident.nextProbeAt),
    waiting: incident.waiting,
    deadLetters: incident.owed,
    acknowledged: incident.isAcknowledged,
    url,
  };
}

import type { AlertSettings } from '../../platform/config.ts';
import type { Channel } from './channel.ts';
import { fitted, footerOf, incidentsUrl, isLink, moreOf } from './message.ts';
import type { Entry, Message } from './message.ts';
import { post } from './post.ts';

export function teamsChannel({ url }: NonNullable<AlertSettings['teams']>): Channel {
  return {
    name: 'teams',
    to: new URL(url).host,
    send: async (message) => await post({ url, body: teamsBody(message) }),
  };
}

/** Teams takes 28 KB, and counts two bytes for a character. */
const LONGEST_BODY = 14_000;

/** Draws what a workflow posts that starts “When a Teams webhook request is received”. */
export function teamsBody(message: Message): string {
  return fitted(
    message,
    (some) =>
      JSON.stringify({
        type: 'message',
        attachments: [{ contentType: 'application/vnd.microsoft.card.adaptive', content: teamsCard(some) }],
      }),
    ({ length }) => length <= LONGEST_BODY,
  );
}

/**
 * Draws a message as an Adaptive Card. Its runs of text are shown as they are: no Markdown of an error makes a link or
 * formats.
 *
 * @see https://learn.microsoft.com/adaptive-cards/schema-explorer/text-run
 */
function teamsCard(message: Message) {
  const { subject, summary, entries, origin } = message;
  const isDigest = summary !== null;
  const more = moreOf(message);
  const url = isDigest ? incidentsUrl(origin) : entries[0]!.url;
  return {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    msteams: { width: 'Full' },
    fallbackText: subject,
    body: [
      textBlock(subject, { size: 'Large', weight: 'Bolder' }),
      ...(isDigest ? [textBlock(summary)] : []),
      ...(isDigest ? entries.map(digestEntry) : entries.map(({ text }) => textBlock(text))),
      ...(more ? [textBlock(`${more.words}.`)] : []),
      ...(isLink(url) ? [] : [textBlock(url)]),
      textBlock(footerOf(message), { size: 'Small', isSubtle: true }),
    ],
    ...(isLink(url) && { actions: [openUrl(url, isDigest ? 'All incidents' : undefined)] }),
  };
}

/** It opens its incident wherever it is pressed: a card has six buttons at most. */
function digestEntry({ title, text, url }: Entry) {
  return {
    type: 'Container',
    separator: true,
    spacing: 'Medium',
    ...(isLink(url) && { selectAction: openUrl(url) }),
    items: [
      textBlock(title, { weight: 'Bolder', ...(isLink(url) && { color: 'Accent' }) }),
      { ...textBlock(text), spacing: 'Small' },
    ],
  };
}

function openUrl(url: string, title = 'Open in Postbud') {
  return { type: 'Action.OpenUrl', title, url };
}

function textBlock(text: string, look: Readonly<Record<string, string | boolean>> = {}) {
  return { type: 'RichTextBlock', inlines: [{ type: 'TextRun', text, ...look }] };
}

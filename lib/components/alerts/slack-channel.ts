import type { AlertSettings } from '../../platform/config.ts';
import type { Channel } from './channel.ts';
import { clipped, footerOf, isLink, moreOf } from './message.ts';
import type { Entry, Message } from './message.ts';
import { post } from './post.ts';
import { chatText } from './webhook-channel.ts';

export function slackChannel({ url }: NonNullable<AlertSettings['slack']>): Channel {
  return {
    name: 'slack',
    to: new URL(url).host,
    send: async (message) => await post({ url, body: JSON.stringify(slackMessage(message)) }),
  };
}

/** Slack refuses a longer header. */
const LONGEST_HEADER = 150;

/**
 * Draws a message in blocks, of which Slack takes 50. What an error says stands in rich text, which is shown as it is: no
 * character of it mentions anybody, makes a link or formats. `text` is what notifications and screen readers have.
 *
 * @see https://docs.slack.dev/reference/block-kit/blocks/rich-text-block
 */
export function slackMessage(message: Message) {
  const { subject, summary, entries } = message;
  const isDigest = summary !== null;
  const more = moreOf(message);
  return {
    text: chatText(message),
    // Slack would follow the links without a session, and show the sign-in page of the console.
    unfurl_links: false,
    blocks: [
      { type: 'header' as const, text: plainText(clipped(subject, LONGEST_HEADER)) },
      ...(isDigest ? [richText([words(summary)])] : []),
      ...entries.map((entry) => richText(isDigest ? digestEntry(entry) : singleEntry(entry))),
      ...(more ? [richText([words(`${more.words}: `), link(more.url)])] : []),
      { type: 'context' as const, elements: [plainText(footerOf(message))] },
    ],
  };
}

/** The header is its title. */
function singleEntry({ text, url }: Entry): readonly RichText[] {
  return [words(`${text}\n`), link(url)];
}

function digestEntry({ title, text, url }: Entry): readonly RichText[] {
  return isLink(url)
    ? [{ type: 'link', url, text: title, style: BOLD }, words(`\n${text}`)]
    : [{ ...words(title), style: BOLD }, words(`\n${text}\n${url}`)];
}

/** Text that Slack shows as it is. */
type RichText = { readonly style?: { readonly bold: boolean } } & (
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'link'; readonly url: string; readonly text?: string }
);

const BOLD = { bold: true };

function words(text: string): RichText {
  return { type: 'text', text };
}

function link(url: string): RichText {
  return isLink(url) ? { type: 'link', url } : words(url);
}

function richText(elements: readonly RichText[]) {
  return { type: 'rich_text' as const, elements: [{ type: 'rich_text_section' as const, elements }] };
}

function plainText(text: string) {
  return { type: 'plain_text' as const, text, emoji: false };
}

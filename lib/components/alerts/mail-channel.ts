import type { MailSettings } from '../../platform/config.ts';
import { MailNotSent, sendMail } from '../../platform/mail/send-mail.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { AlertNotSent, idOf } from './channel.ts';
import type { Channel } from './channel.ts';
import { footerOf, isLink, moreOf } from './message.ts';
import type { Message } from './message.ts';

export function mailChannel(settings: MailSettings): Channel {
  return {
    name: 'mail',
    // The rest is a person's.
    to: `…@${settings.admin.slice(settings.admin.lastIndexOf('@') + 1)}`,
    async send(message) {
      const mail = {
        to: settings.admin,
        senderName: 'Postbud',
        subject: message.subject,
        html: htmlOf(message),
        text: textOf(message),
        categories: ['alert'],
        reference: idOf(message),
      };
      try {
        return String(await sendMail(settings, mail));
      } catch (error) {
        if (!(error instanceof MailNotSent)) throw error;
        const { code, status, reason, fields } = error;
        const words = fields.length === 0 ? null : fields.join(', ');
        throw new AlertNotSent([code, status, reason].filter(Boolean).join(' '), {
          status,
          words,
          cause: error,
        });
      }
    },
  };
}

/** Draws a message as plain text. */
export function textOf(message: Message): string {
  const { summary, entries } = message;
  const more = moreOf(message);
  return [
    ...(summary === null ? [] : [summary]),
    ...entries.map(({ title, text, url }) => `${title}\n${text}\n${url}`),
    ...(more ? [`${more.words}: ${more.url}`] : []),
    footerOf(message),
  ].join('\n\n');
}

/** Draws a message as HTML; every value is escaped. */
export function htmlOf(message: Message): string {
  const { summary, entries } = message;
  const more = moreOf(message);
  const page: Html = html`<!doctype html>
    <html lang="en">
      <body style="margin:0;padding:24px;font:15px/1.5 system-ui,sans-serif;color:#12171e;background:#fff">
        ${summary !== null && html`<p style="margin:0 0 24px">${summary}</p>`}
        ${entries.map(
          ({ title, text, url }) =>
            html`<div style="margin:0 0 24px">
              <h2 style="margin:0 0 4px;font-size:17px">${title}</h2>
              <p style="margin:0 0 8px">${text}</p>
              <p style="margin:0">${link(url)}</p>
            </div>`,
        )}
        ${more && html`<p style="margin:0 0 24px">${more.words}: ${link(more.url)}</p>`}
        <p style="margin:0;color:#535d6a;font-size:13px">${footerOf(message)}</p>
      </body>
    </html>`;
  return String(page);
}

function link(url: string): Child {
  return isLink(url) ? html`<a href="${url}" style="color:#0b57a4">${url}</a>` : url;
}

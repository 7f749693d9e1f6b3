import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';

/**
 * Draws a page that leads on to an address at once. A browser that comes from another site, such as a chat, a mail or the
 * directory, does not send a `SameSite=Strict` cookie; from this page it does. And browsers let no form lead to another
 * site, where the content security policy names none, but a page may.
 */
export function bouncePage({ href }: URL): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta http-equiv="refresh" content="0;url=${href}" />
        <title>Event bus</title>
      </head>
      <body>
        <main>
          <h1>Event bus</h1>
          <p><a href="${href}">Continue</a></p>
        </main>
      </body>
    </html>`;
}

import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';

/**
 * Draws a page that reloads the same address. A browser that follows a link from another site, such as a chat or a mail,
 * does not send a `SameSite=Strict` cookie; from this page it does.
 */
export function bouncePage(url: URL): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta http-equiv="refresh" content="0;url=${url.href}" />
        <title>Event bus</title>
      </head>
      <body>
        <main>
          <h1>Event bus</h1>
          <p><a href="${url.href}">Continue</a></p>
        </main>
      </body>
    </html>`;
}

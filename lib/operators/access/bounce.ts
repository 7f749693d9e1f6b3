import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';

/**
 * A page that asks for the same address again, from here: a `SameSite=Strict` cookie does not come along when a link of
 * another site, a chat or a mail, is followed, but it does now.
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

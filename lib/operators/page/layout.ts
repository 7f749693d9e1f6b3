import type { Operator } from '../operator.ts';
import { BUS_ICON, KEYS_ICON, MOON_ICON, PAUSE_ICON } from './icons.ts';
import { when } from './instants.ts';
import { deadLettersPath, HOME, replaysPath, sameWith } from './links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { count } from './words.ts';

export type { Html } from '../../markup.ts';

/** What each page knows beside what it shows. */
export interface PageContext {
  readonly operator: Operator;
  /** `Production`, `Preview` or `Local`. */
  readonly environment: string;
  /** The request's. */
  readonly url: URL;
  /** All there are; null: not known. */
  readonly deadLetters: number | null;
}

type Section = 'overview' | 'dead-letters' | 'replays' | 'catalog';

interface Page {
  /** What the tab says: no personal data. */
  readonly title: string;
  /** The entry of the navigation that it belongs to; null: to none. */
  readonly section: Section | null;
  /** How often the script fetches it anew; null: never. */
  readonly refreshSeconds?: number | null;
  readonly content: Child;
}

/** A page for someone who is signed in. */
export function layout({ title, section, refreshSeconds = null, content }: Page, context: PageContext): Html {
  return document(
    title,
    html`<a class="skip" href="#content">Skip to content</a>
      <header class="top">
        <a class="brand" href="${HOME}">${BUS_ICON}Event bus</a>
        <span class="env ${context.environment.toLowerCase()}">${context.environment}</span>
        ${navigation(section, context)} ${account(context.operator)}
      </header>
      <main id="content" tabindex="-1" data-refresh="${refreshSeconds ?? 0}">${content}</main>
      <p id="said" class="vh" role="status"></p>
      ${keys()}`,
  );
}

/** A page for whoever comes, without a way into the console. */
export function plainLayout(title: string, content: Child): Html {
  return document(title, html`<main id="content" tabindex="-1">${content}</main>`);
}

/** A page's heading, what it counts, and when it was drawn. */
export function heading({
  title,
  lead,
  live,
  actions,
}: {
  readonly title: Child;
  readonly lead: Child;
  readonly live?: Child;
  readonly actions?: Child;
}): Html {
  return html`<div class="head">
    <div>
      <h1>${title}</h1>
      <p>${lead}</p>
    </div>
    ${actions} ${live}
  </div>`;
}

/** When the page was drawn; the script adds that it is drawn anew. */
export function liveness(generatedAt: string, seconds: number, url: URL): Html {
  return html`<div class="live">
    <span class="dot"></span>
    <span>
      <span data-live>Updated ${when(generatedAt, generatedAt)}</span
      ><span class="every" data-js>, every ${seconds} s</span>
    </span>
    <button class="btn sm" type="button" data-js data-pause>${PAUSE_ICON}<span>Pause</span></button>
    <a class="btn sm" data-nojs href="${sameWith(url, {})}">Refresh</a>
  </div>`;
}

function document(title: string, body: Html): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        <title>${title} · Event bus</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="${HOME}/console.css" />
        <script src="${HOME}/console.js" defer blocking="render"></script>
      </head>
      <body>
        ${body}
      </body>
    </html>`;
}

function navigation(section: Section | null, { deadLetters }: PageContext): Html {
  const pill =
    deadLetters !== null && deadLetters > 0 && html`<span class="pill dead">${count(deadLetters)}</span>`;
  return html`<nav id="navigation" aria-label="Main">
    ${entry('overview', HOME, 'Overview')}
    ${entry('dead-letters', deadLettersPath(), ['Dead letters ', pill])}
    ${entry('replays', replaysPath(), 'Replays')} ${entry('catalog', `${HOME}/catalog`, 'Catalog')}
  </nav>`;

  function entry(of: Section, path: string, words: Child): Html {
    return of === section
      ? html`<a href="${path}" aria-current="page">${words}</a>`
      : html`<a href="${path}">${words}</a>`;
  }
}

function account({ name, scopes }: Operator): Html {
  return html`<div class="who">
    <span><b>${name}</b> · ${scopes.has('event-bus:replay') ? 'operator' : 'viewer'}</span>
    <button class="btn icon" type="button" data-js data-keys aria-label="Keyboard shortcuts">
      ${KEYS_ICON}
    </button>
    <button
      class="btn icon"
      type="button"
      data-js
      data-theme-toggle
      aria-label="Switch between light and dark"
    >
      ${MOON_ICON}
    </button>
    <form method="post" action="${HOME}/sign-out"><button class="btn sm">Sign out</button></form>
  </div>`;
}

const KEYS = [
  ['/', 'Filter'],
  ['r', 'Refresh'],
  ['g o', 'Overview'],
  ['g d', 'Dead letters'],
  ['g p', 'Replays'],
  ['g c', 'Catalog'],
  ['?', 'These keys'],
] as const;

/** Single keys can be turned off: whoever speaks to the computer presses them by speaking (WCAG 2.1.4). */
function keys(): Html {
  return html`<dialog id="keys" aria-labelledby="h-keys">
    <h2 id="h-keys">Keyboard shortcuts</h2>
    <dl class="kv">
      ${KEYS.map(
        ([key, meaning]) =>
          html`<dt><kbd>${key}</kbd></dt>
            <dd>${meaning}</dd>`,
      )}
    </dl>
    <label class="check"><input type="checkbox" data-keys-on checked />Use these shortcuts</label>
    <form method="dialog"><button class="btn sm">Close</button></form>
  </dialog>`;
}

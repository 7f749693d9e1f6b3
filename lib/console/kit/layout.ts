import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { visible } from '../../platform/visible.ts';
import { FOLLOW_SECONDS, followingRegion, isFollowed } from './following.ts';
import type { Entered } from './entered.ts';
import type { FormOf } from './form-of.ts';
import type { Following } from './following.ts';
import type { Handling } from './handling.ts';
import { BUS_ICON, KEYS_ICON, MOON_ICON, PAUSE_ICON, SEARCH_ICON } from './icons.ts';
import { time } from './instants.ts';
import { eventsPath, HOME, withParameters } from './links.ts';
import { navigation } from './navigation.ts';
import type { Badges, Section } from './navigation.ts';
import type { OperatorNames } from './operator-names.ts';
import type { Operator } from './operator.ts';
import { factList } from './sections.ts';
import { count } from './words.ts';

export type { Html } from '../../platform/markup.ts';

/** The request, as each page needs it. */
export interface PageContext {
  readonly operator: Operator;
  /** `Production`, `Preview` or `Local`. */
  readonly environment: string;
  readonly url: URL;
  /** Null: not known. */
  readonly badges: Badges | null;
  readonly names: OperatorNames;
  /** The action that the address says was done, and how it goes on. */
  readonly following?: Following | null;
  /** The page's lists as files. */
  readonly csv?: { readonly words: string; readonly path: string };
  /** A form that was refused, whose page is drawn again with what was typed. */
  readonly entered?: Entered;
  /** A form that was sent without a session, to be shown again. */
  readonly unsent?: Html | null;
  /** The actions whose forms it may have. */
  readonly actions: readonly FormOf[];
  /** Whether the handler of a subscription refuses replays. */
  readonly refusesReplay: (topic: string, subscriber: string) => boolean;
  /** How this release delivers a subscription, or why it does not. */
  readonly handling: (topic: string, subscriber: string) => Handling;
}

interface Page {
  /** The title of the tab, after the number of incidents that happen now: without personal data, since browsers keep it. */
  readonly title: string;
  /** The entry of the navigation that is marked; null: none. */
  readonly section: Section | null;
  /** How often the script refreshes the page; null: never. */
  readonly refreshSeconds?: number | null;
  /** An action that the page is about: its content has the region that follows it. */
  readonly following?: Following;
  /** Whether a browser without script loads the page again by itself. */
  readonly isReloaded?: boolean;
  readonly content: Child;
}

/** Draws a page for someone who is signed in. */
export function layout(
  { title, section, refreshSeconds = null, following: own, isReloaded = false, content }: Page,
  context: PageContext,
): Html {
  const following = own ?? context.following ?? null;
  const isWatched = following !== null && isFollowed(following);
  const happening = context.badges?.happening ?? 0;
  return document(
    happening > 0 ? `(${count(happening)}) ${title}` : title,
    html`<a class="skip" href="#content">Skip to content</a>
      <header class="top">
        <a class="brand" href="${HOME}">${BUS_ICON}Event bus</a>
        <span class="env ${context.environment.toLowerCase()}">${context.environment}</span>
        ${navigation(section, context.badges)} ${searchBox(context.url)} ${account(context.operator)}
      </header>
      <main id="content" tabindex="-1" data-refresh="${isWatched ? FOLLOW_SECONDS : (refreshSeconds ?? 0)}">
        ${context.unsent}
        ${own === undefined && followingRegion(following, following && followingActions(context.url, isWatched))}
        ${content}
        ${context.csv && html`<p class="csv muted small">As CSV: <a href="${context.csv.path}">${context.csv.words}</a></p>`}
      </main>
      <footer class="foot muted small">
        <span>Times are in <span data-zone-name>UTC</span>.</span>
        <button class="btn sm quiet" type="button" data-js data-zone>Show UTC</button>
      </footer>
      <p id="said" class="vh" role="status"></p>
      ${keys()}`,
    // A reload would lose the form.
    isReloaded || (isWatched && following.isLong !== true && !context.unsent),
  );
}

function followingActions(url: URL, isWatched: boolean): Html {
  return isWatched
    ? html`<a class="btn" data-nojs href="${url.pathname + url.search}">Refresh</a>`
    : html`<a class="btn sm quiet" href="${withParameters(url, {})}"
        >Close<span class="vh"> this message</span></a
      >`;
}

/** Draws a page for anyone, without the console's navigation. */
export function plainLayout(title: string, content: Child): Html {
  return document(title, html`<main id="content" tabindex="-1">${content}</main>`);
}

/** Draws a page's title with a sentence about the page, its buttons, and its age. */
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

/** Says when the page was drawn, and that the script refreshes it. */
export function liveness(generatedAt: string, seconds: number, url: URL): Html {
  return html`<div class="live">
    <span class="dot" data-js></span>
    <span>
      <span data-live>Updated ${time(generatedAt, generatedAt)}</span
      ><span class="every" data-js>, every ${seconds} s</span>
    </span>
    <button class="btn sm" type="button" data-js data-pause>${PAUSE_ICON}<span>Stop refreshing</span></button>
    <a class="btn sm" data-nojs href="${url.pathname + url.search}">Refresh</a>
  </div>`;
}

/** @param isWatched whether a browser without script reloads the page, too, until an action has ended. */
function document(title: string, body: Html, isWatched = false): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        ${isWatched && html`<noscript><meta http-equiv="refresh" content="${UNSCRIPTED_SECONDS}" /></noscript>`}
        <title>${title} · Postbud</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="${HOME}/console.css" />
        <script src="${HOME}/console.js" defer blocking="render"></script>
      </head>
      <body>
        ${body}
      </body>
    </html>`;
}

/** A reload is slower than what the script does, and takes the page from under its reader. */
const UNSCRIPTED_SECONDS = 2;

/** Draws the search over all events. Its field has what the page was searched for. */
function searchBox({ pathname, searchParams }: URL): Html {
  const q = pathname === eventsPath() ? searchParams.get('q') : null;
  return html`<form class="find" role="search" method="get" action="${eventsPath()}">
    <input
      type="search"
      name="q"
      value="${q}"
      aria-label="Find an event"
      placeholder="Find by id or key"
      maxlength="255"
      spellcheck="false"
      autocapitalize="off"
      required
      data-find
    />
    <button class="btn icon" aria-label="Find">${SEARCH_ICON}</button>
  </form>`;
}

function account({ name, scopes }: Operator): Html {
  return html`<div class="who">
    <span
      ><b title="${visible(name)}">${name}</b
      ><span class="as"> · ${scopes.has('event-bus:replay') ? 'operator' : 'viewer'}</span></span
    >
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
  ['/', 'Find an event'],
  ['f', 'Filter this page'],
  ['r', 'Refresh'],
  ['g o', 'Overview'],
  ['g i', 'Incidents'],
  ['g d', 'Dead letters'],
  ['g e', 'Events'],
  ['g s', 'Subscribers'],
  ['g p', 'Replays and log'],
  ['g w', 'Webhooks'],
  ['g c', 'Catalog'],
  ['?', 'Show these shortcuts'],
] as const;

/** Shortcuts of one key can be turned off: speech input presses them by accident (WCAG 2.1.4). */
function keys(): Html {
  return html`<dialog id="keys" aria-labelledby="h-keys">
    <h2 id="h-keys">Keyboard shortcuts</h2>
    ${factList(KEYS.map(([key, meaning]) => [html`<kbd>${key}</kbd>`, meaning]))}
    <label class="check"><input type="checkbox" data-keys-on checked />Use these shortcuts</label>
    <form method="dialog"><button class="btn sm">Close</button></form>
  </dialog>`;
}

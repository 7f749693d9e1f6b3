import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { visible } from '../../platform/visible.ts';
import { DONE_REFRESH_SECONDS, doneRegion } from './done.ts';
import type { DoneNote } from './done.ts';
import type { Entered } from './entered.ts';
import type { Handling } from './handling.ts';
import { BUS_ICON, MOON_ICON, PAUSE_ICON, SEARCH_ICON } from './sections.ts';
import { count, countUpTo, time } from './words.ts';
import {
  deadLettersPath,
  eventsPath,
  HOME,
  incidentsPath,
  replaysPath,
  subscribersPath,
  timersPath,
  webhooksPath,
} from './links.ts';
import type { OperatorNames } from './document.ts';
import type { Operator } from './operator.ts';
import type { PauseOf } from './pauses.ts';

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
  /** What the operator did on this page a moment ago. */
  readonly done?: DoneNote | null;
  /** The page's lists as files. */
  readonly csv?: { readonly words: string; readonly path: string };
  /** A form that was refused, whose page is drawn again with what was typed. */
  readonly entered?: Entered;
  /** A form that was sent without a session, to be shown again. */
  readonly unsent?: Html | null;
  /** The actions whose forms it may have. */
  readonly actions: readonly FormOf[];
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
  /** Whether a browser without script loads the page again by itself. */
  readonly isReloaded?: boolean;
  readonly content: Child;
}

/** Draws a page for someone who is signed in. */
export function layout(
  { title, section, refreshSeconds = null, isReloaded = false, content }: Page,
  context: PageContext,
): Html {
  const done = context.done ?? null;
  const happening = context.badges?.happening ?? 0;
  return document(
    happening > 0 ? `(${count(happening)}) ${title}` : title,
    html`<a class="skip" href="#content">Skip to content</a>
      <header class="top">
        <a class="brand" href="${HOME}">${BUS_ICON}Event bus</a>
        <span class="env ${context.environment.toLowerCase()}">${context.environment}</span>
        ${navigation(section, context.badges)} ${searchBox(context.url)} ${account(context.operator)}
      </header>
      <main id="content" tabindex="-1" data-refresh="${done ? DONE_REFRESH_SECONDS : (refreshSeconds ?? 0)}">
        ${context.unsent} ${doneRegion(done)} ${content}
        ${context.csv && html`<p class="csv muted small">As CSV: <a href="${context.csv.path}">${context.csv.words}</a></p>`}
      </main>
      <footer class="foot muted small">
        <span>Times are in <span data-zone-name>UTC</span>.</span>
        <button class="btn sm quiet" type="button" data-js data-zone>Show UTC</button>
      </footer>
      <p id="said" class="vh" role="status"></p>`,
    // A reload would lose the form.
    (isReloaded || (done !== null && !context.unsent)) && WATCHED,
  );
}

/** Draws a page for anyone, without the console's navigation. @param meta an element of its head. */
export function plainLayout(title: string, content: Child, meta: Child = null): Html {
  return document(title, html`<main id="content" tabindex="-1">${content}</main>`, meta);
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

function document(title: string, body: Html, meta: Child): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        ${meta}
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

/** Has a browser without script reload the page, too, until an action has ended. */
const WATCHED = html`<noscript><meta http-equiv="refresh" content="${UNSCRIPTED_SECONDS}" /></noscript>`;

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

/** Dead letters that every page counts. Nobody acts on a greater number in another way, and each page would wait for it. */
export const COUNTED = 10_000;

/** What every page shows, or says of what it shows. */
export interface Badges {
  readonly deadLetters: number;
  /** Incidents that are happening now. */
  readonly happening: number;
  /** All pauses, which pages show that concern what they stop. */
  readonly pauses: readonly PauseOf[];
  /** Of operators, by the ids that the log has. */
  readonly names: OperatorNames;
}

/** The entries of the navigation. */
const PAGES = [
  { section: 'overview', path: HOME, words: 'Overview' },
  { section: 'incidents', path: incidentsPath(), words: 'Incidents' },
  { section: 'dead-letters', path: deadLettersPath(), words: 'Dead letters' },
  { section: 'events', path: eventsPath(), words: 'Events' },
  { section: 'timers', path: timersPath(), words: 'Timers' },
  { section: 'subscribers', path: subscribersPath(), words: 'Subscribers' },
  { section: 'replays', path: replaysPath(), words: 'Operations' },
  { section: 'webhooks', path: webhooksPath(), words: 'Webhooks' },
] as const;

export type Section = (typeof PAGES)[number]['section'];

function navigation(current: Section | null, badges: Badges | null): Html {
  const pills: { readonly [Of in Section]?: Child } = {
    incidents: pill(badges?.happening, count, 'happening now'),
    'dead-letters': pill(badges?.deadLetters, (number) => countUpTo(number, COUNTED)),
  };
  return html`<nav id="navigation" aria-label="Main">
    ${PAGES.map(
      ({ section, path, words }) =>
        html`<a href="${path}" ${section === current && CURRENT}>${words} ${pills[section]}</a>`,
    )}
  </nav>`;
}

const CURRENT = html`aria-current="page"`;

/** @param meaning for screen readers, where the entry's name does not say what is counted. */
function pill(number = 0, words = count, meaning?: string): Child {
  return (
    number > 0 &&
    html`<span class="pill dead"
      >${words(number)}${meaning !== undefined && html`<span class="vh"> ${meaning}</span>`}</span
    >`
  );
}

/** What a page needs for the form of an action. */
export interface FormOf {
  /** In the address of the page that follows it: `?done=retry`. */
  readonly name: string;
  /** Of its route, with parameters in braces. */
  readonly path: string;
  /** The words on its button, or on the one that opens its form. None where only its preview leads to it. */
  readonly button?: string;
  /** What is asked for, where a reason is. */
  readonly asks?: {
    /** What will happen. */
    readonly text: string;
    /** Of a reason. */
    readonly example: string;
    readonly submit: string;
    /** Of the reason: by default `reason`. A note is for others. */
    readonly field?: 'reason' | 'note';
  };
}

/** The path of an action with its parameters in it. */
export function pathOf({ path }: FormOf, parameters: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parameters[name]!));
}

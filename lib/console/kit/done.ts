import { parse, serialize } from 'hono/utils/cookie';
import * as z from 'zod';

import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { CHECK_ICON } from './sections.ts';
import { time } from './words.ts';

// After an action a browser is back at the page that it came from. For a minute that page says what was done, and asks
// each second how it goes on, which it shows itself. A cookie carries the words, so that no address claims them: a link
// that is shared or kept says nothing of it.

/** The page that a form leads to, and what was done, as sentences. */
export interface Back {
  readonly path: string;
  readonly done: string;
}

const COOKIE = '__Host-event-bus-done';

const SHOWN_SECONDS = 60;

/** How often a page asks while it says what was done. */
export const DONE_REFRESH_SECONDS = 1;

const note = z.object({ page: z.string(), words: z.string(), at: z.iso.datetime() });
export type DoneNote = z.output<typeof note>;

/** Gives a browser the words for the page that it is sent to. */
export function doneCookie({ path, done }: Back): string {
  const page = pageOf(path);
  return serialize(COOKIE, JSON.stringify({ page, words: done, at: new Date() }), {
    path: '/',
    secure: true,
    httpOnly: true,
    sameSite: 'Strict',
    maxAge: SHOWN_SECONDS,
  });
}

/** Reads what was done on a page a moment ago; null: nothing. */
export function doneOn({ pathname }: URL, { headers }: Request): DoneNote | null {
  try {
    const found = note.parse(JSON.parse(parse(headers.get('cookie') ?? '', COOKIE)[COOKIE] ?? ''));
    return found.page === pathname ? found : null;
  } catch {
    return null;
  }
}

const pageOf = (path: string) => new URL(path, 'https://console.invalid').pathname;

/** Draws the region that says it. It is there, and empty, before there is anything to say: screen readers hear what changes. */
export function doneRegion(done: DoneNote | null): Html {
  if (done === null) return html`<div id="done" role="status"></div>`;
  return html`<div id="done" role="status" class="alert ok">
    ${CHECK_ICON}
    <p>${done.words} <span class="muted nowrap">${time(done.at, done.at)}</span></p>
  </div>`;
}

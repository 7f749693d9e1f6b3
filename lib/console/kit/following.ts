import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { MINUTE } from '../../platform/time.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, WARNING_ICON } from './icons.ts';

/** How an operator's action goes on, read from what it acted on. */
export interface Following {
  readonly tone: 'ok' | 'fail' | 'dead' | 'wait';
  /** What was done and how it ended, or what it waits for. */
  readonly words: Child;
  /** Whether this is how it ended, so that nothing is left to follow. */
  readonly isSettled: boolean;
  /** When the operator acted. */
  readonly since: string;
  readonly now: string;
  /** It goes on for long, so that a page without script, which would have to be loaded again, is left to its reader. */
  readonly isLong?: boolean;
}

/** Reads how one kind of action goes on. @param of names what it acted on. @returns null if there is no such action. */
export type Follower<Source> = (source: Source, of: string) => Promise<Following | null>;

/** Query parameters of a page that follows an action: the action's name, and what it acted on. */
const DONE = 'done';
const OF = 'of';

/** The page to open after an action, which then follows it. @param of names what the follower `done` reads. */
export function followedPath(path: string, done: string, of: string): string {
  const url = new URL(path, 'https://console.invalid');
  url.searchParams.set(DONE, done);
  url.searchParams.set(OF, of);
  return url.pathname + url.search;
}

/** The action that a page follows; null: none. */
export function followedAction({ searchParams }: URL): { readonly done: string; readonly of: string } | null {
  const [done, of] = [searchParams.get(DONE), searchParams.get(OF)];
  return done === null || of === null ? null : { done, of };
}

/** An action that has not ended by then waits for a retry or for a relay; that is news of another kind. */
const FOLLOWED_MS = MINUTE;

/** How often a page asks while it follows an action. */
export const FOLLOW_SECONDS = 1;

/** Whether the page asks each second how the action goes on. */
export function isFollowed({ isSettled, since, now }: Following): boolean {
  return !isSettled && Date.parse(now) - Date.parse(since) < FOLLOWED_MS;
}

const ICONS = { ok: CHECK_ICON, fail: WARNING_ICON, dead: DEAD_ICON, wait: CLOCK_ICON };

/** Draws the region in which a page says how an action goes on. It is there, and empty, before there is anything to say. */
export function followingRegion(following: Following | null, action?: Child): Html {
  if (following === null) return html`<div id="following" role="status"></div>`;
  const { tone, words, isSettled } = following;
  const isGivenUp = !isSettled && !isFollowed(following);
  return html`<div id="following" role="status" class="alert ${tone}">
    ${ICONS[tone]}
    <p>${words}${isGivenUp && ' After a minute, this page no longer asks every second.'}</p>
    ${action}
  </div>`;
}

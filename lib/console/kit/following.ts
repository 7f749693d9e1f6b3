import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { MINUTE } from '../../platform/time.ts';
import { DONE, DONE_TO } from './done.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, WARNING_ICON } from './icons.ts';
import type { OperatorNames } from './operator-names.ts';

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

/** Follows one kind of action. @throws Problem 400 `validation_failed` for parameters that do not say what it acted on. */
export type Follower = (fields: Fields) => (db: Database, names: OperatorNames) => Promise<Following | null>;

/** Reads how an action goes on. @returns null if there was no such action. */
export type Follow<ActedOn> = (
  db: Database,
  actedOn: ActedOn,
  names: OperatorNames,
) => Promise<Following | null>;

/** What may be followed, by the name that an address gives it. */
export interface Followed {
  readonly name: string;
  readonly follow?: Follower;
}

type Fields = Readonly<Record<string, string>>;

/** Makes a follower. @param shape of what was acted on. @param read finds how it goes on. */
export function follower<ActedOn>(shape: z.ZodType<ActedOn>, read: Follow<ActedOn>): Follower {
  const known = z.object({ done: shape });
  return (fields) => {
    const { done } = requireValid({ done: fields }, known);
    return async (db, names) => await read(db, done, names);
  };
}

/** What was acted on, as an address has it: null leaves a field out. */
export type Named = Readonly<Record<string, string | null | undefined>>;

/** The page to open after an action, which then follows it. */
export function followedPath(path: string, done: string, actedOn: Named): string {
  const url = new URL(path, 'https://console.invalid');
  url.searchParams.set(DONE, done);
  for (const [name, value] of Object.entries(actedOn)) {
    if (value !== null && value !== undefined) url.searchParams.set(DONE_TO + name, value);
  }
  return url.pathname + url.search;
}

/** Finds what follows the action that a page's address names; null: it names none. @throws Problem as `Follower` */
export function followIn({ searchParams }: URL, followers: readonly Followed[]): ReturnType<Follower> | null {
  if (!searchParams.has(DONE)) return null;
  const known = new Map(followers.flatMap(({ name, follow }) => (follow ? [[name, follow] as const] : [])));
  const { done } = requireValid(
    { done: searchParams.get(DONE) },
    z.object({ done: z.enum([...known.keys()]) }),
  );
  const named = [...searchParams].filter(([name]) => name.startsWith(DONE_TO));
  return known.get(done)!(
    Object.fromEntries(named.map(([name, value]) => [name.slice(DONE_TO.length), value])),
  );
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

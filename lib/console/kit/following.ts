import * as z from 'zod';

import { deliveryId, topicText } from '../../bus/deliveries/operations/replay-request.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { MINUTE } from '../../platform/time.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, WARNING_ICON } from './icons.ts';
import { subscriberName } from './shapes.ts';

const incident = z.object({ incidentId: z.uuid('expected the id of an incident') });
const delivery = z.object({ deliveryId });
const subscriber = z.object({ subscriber: subscriberName });
/** A subscriber on one topic; without a topic, on all of them. */
const subscription = subscriber.extend({ topic: topicText.nullable().default(null) });

/** What each action acts on, by the action's name. */
export const ACTED_ON = {
  'acknowledge-incident': incident,
  'dismiss-incident': incident,
  'retry-incident': incident,
  /** `released` says that it halted its lane, which goes on. */
  dismiss: delivery.extend({ lane: z.literal('released').nullable().default(null) }),
  retry: delivery,
  skip: delivery,
  pause: subscription,
  resume: subscription,
  retire: subscription,
  /** From the former name to the new one. */
  rename: subscription.extend({ to: subscriberName }),
  probe: subscriber,
  replay: z.object({ replayId: z.uuid('expected the id of a replay') }),
  /** A row that was set aside, or an event that was never fanned out. */
  repair: z.object({
    id: z.union([z.uuid(), z.string().regex(/^\d{1,18}$/)], 'expected the id of a row or of an event'),
  }),
};
export type Action = keyof typeof ACTED_ON;

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
export type Follower<Source> = (fields: Fields) => Follow<Source>;

/** Reads how an action goes on. @returns null if there was no such action. */
type Follow<Source> = (source: Source) => Promise<Following | null>;

/** Makes a follower. @param actedOn of the action in `ACTED_ON`. @param read finds how the action goes on. */
export function follower<Source, ActedOn>(
  actedOn: z.ZodType<ActedOn>,
  read: (source: Source, actedOn: ActedOn) => Promise<Following | null>,
): Follower<Source> {
  return (fields) => {
    const { done } = requireValid({ done: fields }, z.object({ done: actedOn }));
    return async (source) => await read(source, done);
  };
}

/** Begins the names of the query parameters that say what was done: `?done=retry&done.deliveryId=12-345`. */
const DONE = 'done';
const PREFIX = `${DONE}.`;

type Fields = Readonly<Record<string, string>>;

/** The page to open after an action, which then follows it. */
export function followedPath<Done extends Action>(
  path: string,
  done: Done,
  actedOn: z.input<(typeof ACTED_ON)[Done]>,
): string {
  const url = new URL(path, 'https://console.invalid');
  url.searchParams.set(DONE, done);
  for (const [name, value] of Object.entries(actedOn)) {
    if (value !== null && value !== undefined) url.searchParams.set(PREFIX + name, value);
  }
  return url.pathname + url.search;
}

/** Finds what follows the action that a page's address names; null: it names none. @throws Problem as `Follower` */
export function followIn<Source>(
  { searchParams }: URL,
  followers: Readonly<Record<Action, Follower<Source>>>,
): Follow<Source> | null {
  if (!searchParams.has(DONE)) return null;
  const { done } = requireValid({ done: searchParams.get(DONE) }, NAMED);
  const named = [...searchParams].filter(([name]) => name.startsWith(PREFIX));
  return followers[done](
    Object.fromEntries(named.map(([name, value]) => [name.slice(PREFIX.length), value])),
  );
}

const NAMED = z.object({ [DONE]: z.object(ACTED_ON).keyof() });

/** Whether a query parameter says what was done. */
export function isOfAction(name: string): boolean {
  return name === DONE || name.startsWith(PREFIX);
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

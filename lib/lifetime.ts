import { AsyncLocalStorage } from 'node:async_hooks';

import { SECOND } from './time.ts';

// How long functions live, and what fits into that. `vercel.json` says the same to the platform.

/** A function's `maxDuration`: the platform ends it then, whatever runs in it, also after its answer (`waitUntil`). */
export const FUNCTION_LIFE_MS = 30 * SECOND;

/** The `maxDuration` of the cron's function. */
export const CRON_LIFE_MS = 90 * SECOND;

/** The end of a life that is kept free of handlers: to settle what they did, also where the database is slow. */
const SETTLING_MS = 5 * SECOND;

/**
 * How long one kick's relay looks for work. With the 15 seconds of the longest handler here and the time to settle it
 * fills the life of a function that kicks at once.
 */
export const KICK_BUDGET_MS = 10 * SECOND;

/**
 * How long the cron's relay looks for work: past the next call, which may be 10 seconds late without a gap. A handler of
 * 15 seconds can be begun until the end of it.
 */
export const CRON_BUDGET_MS = 70 * SECOND;

/**
 * The longest time limit of a handler: it can be begun in the first 25 seconds of each of the cron's calls. A longer
 * one would seldom or never find that much of a function's life left.
 */
export const LONGEST_TIME_LIMIT_MS = 60 * SECOND;

const lives = new AsyncLocalStorage<{ readonly endsAt: number }>();

/** Answers a request in a function that lives so long from now on. */
export async function withinLife<Answer>(lifeMs: number, answer: () => Promise<Answer>): Promise<Answer> {
  return await lives.run({ endsAt: Date.now() + lifeMs }, answer);
}

/**
 * By when the handlers must have ended that the function around this call begins, in milliseconds since the epoch.
 * Outside of a request the shortest life counts, from now on.
 *
 * @param deadline when the platform says that the function ends, if it does.
 */
export function handlersUntil(deadline?: Date): number {
  const endsAt = lives.getStore()?.endsAt ?? Date.now() + FUNCTION_LIFE_MS;
  return Math.min(endsAt, deadline?.getTime() ?? Infinity) - SETTLING_MS;
}

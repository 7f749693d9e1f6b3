import { AsyncLocalStorage } from 'node:async_hooks';

import { SECOND } from './time.ts';

// The lifetimes of functions, and the budgets within them. `vercel.json` must agree.

/** A function's `maxDuration`. The platform then ends it, including work after the answer (`waitUntil`). */
export const FUNCTION_LIFE_MS = 30 * SECOND;

/** The `maxDuration` of the functions that relay for others: the cron's and the kick's. */
export const RELAY_LIFE_MS = 90 * SECOND;

/** The end of a function's life, reserved for settling the outcomes of handlers on a slow database. */
const SETTLING_MS = 5 * SECOND;

/**
 * The budget of one kick's relay. With the longest handler here (15 seconds) and the time to settle, it fills the life
 * of a function that kicks at once.
 */
export const KICK_BUDGET_MS = 10 * SECOND;

/**
 * The budget of the cron's relay. It extends past the next call, which may be 10 seconds late without a gap. A handler
 * of 15 seconds can start until its end.
 */
export const CRON_BUDGET_MS = 70 * SECOND;

/**
 * The longest time limit of a handler. Such a handler can start in the first 25 seconds of each call of the cron; a
 * longer one would rarely or never find enough time.
 */
export const LONGEST_TIME_LIMIT_MS = 60 * SECOND;

const lives = new AsyncLocalStorage<{ readonly endsAt: number }>();

/** Runs a handler in a function that ends `lifeMs` from now. */
export async function withinLife<Answer>(lifeMs: number, answer: () => Promise<Answer>): Promise<Answer> {
  return await lives.run({ endsAt: Date.now() + lifeMs }, answer);
}

/**
 * The time by which handlers of the current function must have ended, in milliseconds since the epoch. Outside a
 * request it counts the shortest life from now.
 *
 * @param deadline the function's end according to the platform, if known.
 */
export function handlersUntil(deadline?: Date): number {
  const endsAt = lives.getStore()?.endsAt ?? Date.now() + FUNCTION_LIFE_MS;
  return Math.min(endsAt, deadline?.getTime() ?? Infinity) - SETTLING_MS;
}

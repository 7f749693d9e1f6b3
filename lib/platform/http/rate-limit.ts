import type { Count, Limit, Limiter, Verdict } from '../rate-limit/limiter.ts';
import { DAY, SECOND } from '../time.ts';
import { Problem } from './problem.ts';

/**
 * Writes the rate limit headers: all limits, and the remaining calls of the most pressing one.
 *
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 */
export function rateLimitHeaders(
  limits: readonly Limit[],
  verdict: Verdict,
): { readonly 'ratelimit-policy': string; readonly ratelimit?: string } {
  const policies = limits.map(({ name, limit, windowMs }) => `"${name}";q=${limit};w=${windowMs / SECOND}`);
  const pressing = mostPressing(verdict);
  return {
    'ratelimit-policy': policies.join(', '),
    ...(pressing && {
      ratelimit: `"${pressing.limit.name}";r=${pressing.remaining};t=${secondsUntilReset(pressing)}`,
    }),
  };
}

/** @throws Problem `rate_limited` when a limit refused the call. */
export function requireAllowed(limits: readonly Limit[], verdict: Verdict): void {
  const pressing = mostPressing(verdict);
  if (verdict.isAllowed || !pressing) return;
  const seconds = secondsUntilReset(pressing);
  throw new Problem('rate_limited', {
    detail: `Too many calls. Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`,
    headers: rateLimitHeaders(limits, verdict),
    retryAfterSeconds: seconds,
    reason: pressing.limit.name,
  });
}

/** One call that was counted against a day's budget. */
export interface Budgeted {
  /** Uncounts a call that was not made after all. Never rejects. */
  giveBack(): Promise<unknown>;
}

/**
 * Counts one call against the budget that all visitors share for a day (UTC).
 *
 * @param perDay calls a day.
 * @param visit of a network with its own part of the budget, which `giveBack` uncounts too.
 * @throws Problem 429 `rate_limited`
 */
export async function takeBudget(
  limiter: Limiter,
  name: string,
  perDay: number,
  visit?: { giveBackPart(): Promise<void> },
): Promise<Budgeted> {
  const limit = { name, limit: perDay, windowMs: DAY };
  const verdict = await limiter.take([{ key: 'everyone', limit }]);
  requireAllowed([limit], verdict);
  return {
    giveBack: () => Promise.all([...verdict.counts.map((count) => count.giveBack()), visit?.giveBackPart()]),
  };
}

/** The limit that refused, or else the one with the fewest calls left; of equals, the one with the longest window. */
function mostPressing({ counts }: Verdict): Count | undefined {
  const [first] = counts.toSorted(
    (one, other) =>
      Number(other.isRefused) - Number(one.isRefused) ||
      one.remaining - other.remaining ||
      other.resetsInMs - one.resetsInMs,
  );
  return first;
}

/** Rounded up, so that a caller who waits that long is not early. */
function secondsUntilReset({ resetsInMs }: Count): number {
  return Math.max(1, Math.ceil(resetsInMs / SECOND));
}

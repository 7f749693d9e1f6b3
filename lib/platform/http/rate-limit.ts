import type { Count, Limit, Verdict } from '../rate-limit/limiter.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../time.ts';
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

/** @throws Problem `rate_limited` when a limit refused the call: whose limit it is, and when it opens. */
export function requireAllowed(limits: readonly Limit[], verdict: Verdict): void {
  const pressing = mostPressing(verdict);
  if (verdict.isAllowed || !pressing) return;
  const seconds = secondsUntilReset(pressing);
  // Windows of a day end at midnight UTC, all of them.
  const at = pressing.limit.windowMs === DAY ? ', at midnight UTC' : '';
  throw new Problem('rate_limited', {
    detail: `${refusalWords(pressing.limit)} Try again in ${waitWords(seconds)}${at}.`,
    headers: rateLimitHeaders(limits, verdict),
    retryAfterSeconds: seconds,
    reason: pressing.limit.name,
    scope: pressing.limit.covers,
  });
}

function refusalWords({ limit, windowMs, covers }: Limit): string {
  const most = `${limit} ${limit === 1 ? 'is' : 'are'} allowed in ${windowWords(windowMs)}`;
  switch (covers) {
    case 'service':
      return `All visitors together have used up the day’s ${limit} calls.`;
    case 'network':
      return `Too many calls from your network: ${most}.`;
    default:
      return `Too many calls: ${most}.`;
  }
}

function windowWords(ms: number): string {
  const [unit, name] = (
    [
      [DAY, 'day'],
      [HOUR, 'hour'],
      [MINUTE, 'minute'],
    ] as const
  ).find(([length]) => ms % length === 0) ?? [SECOND, 'second'];
  return ms === unit ? `${name === 'hour' ? 'an' : 'a'} ${name}` : `${ms / unit} ${name}s`;
}

/** Rounded up, so that nobody comes too early: `41 seconds`, `7 minutes`, `16 hours and 40 minutes`. */
function waitWords(seconds: number): string {
  if (seconds < 120) return quantity(seconds, 'second');
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 120) return quantity(minutes, 'minute');
  const rest = minutes % 60;
  const hours = quantity(Math.floor(minutes / 60), 'hour');
  return rest === 0 ? hours : `${hours} and ${quantity(rest, 'minute')}`;
}

function quantity(number: number, unit: string): string {
  return `${number} ${unit}${number === 1 ? '' : 's'}`;
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

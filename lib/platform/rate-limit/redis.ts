import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis';
import pTimeout from 'p-timeout';

import { log } from '../log.ts';
import { MINUTE } from '../time.ts';
import { countOf } from './limiter.ts';
import type { Count, Limit, Limiter, Taking, Verdict } from './limiter.ts';
import { MemoryLimiter } from './memory.ts';

/** The longest that a visitor waits for the count. */
const PATIENCE_MS = 800;

/** One warning a minute says as much as one for each call. */
const WARNING_EVERY_MS = MINUTE;

/**
 * Uncounts one call in a window's counter. The library's own way, a call with the rate -1, counts in the current
 * window, which may be a new one, and goes below zero there. A counter also counts refused calls, so the excess above
 * the limit is removed first.
 *
 * @returns the calls that remain counted. An expired counter is not created again.
 */
const GIVE_BACK = `
  local counted = tonumber(redis.call('GET', KEYS[1]) or '0')
  local left = math.max(0, math.min(counted, tonumber(ARGV[1])) - 1)
  if counted > left then redis.call('DECRBY', KEYS[1], counted - left) end
  return left
`;

export interface RedisLimiterOptions {
  readonly url: string;
  readonly token: string;
  /** Counts while Redis is unavailable. */
  readonly fallback?: Limiter;
  readonly patienceMs?: number;
}

/**
 * Counts in Redis, for all instances together. If Redis does not answer in time, or not with a count, the call is
 * counted in this process instead; the library itself would allow it.
 */
export class RedisLimiter implements Limiter {
  readonly #redis: Redis;
  readonly #fallback: Limiter;
  readonly #patienceMs: number;
  readonly #counters = new Map<string, Ratelimit>();
  #failures = 0;
  #warnedAt = -Infinity;

  constructor({ url, token, fallback, patienceMs }: RedisLimiterOptions) {
    this.#fallback = fallback ?? new MemoryLimiter();
    this.#patienceMs = patienceMs ?? PATIENCE_MS;
    this.#redis = new Redis({
      url,
      token,
      enableTelemetry: false,
      retry: { retries: 0 },
      // A function, since with a plain signal the client invents an answer when it aborts.
      signal: () => AbortSignal.timeout(this.#patienceMs),
    });
  }

  async take(takings: readonly Taking[]): Promise<Verdict> {
    let taken: readonly Count[];
    try {
      taken = await this.#inTime(this.#takeAll(takings));
    } catch (error) {
      this.#warn(error);
      return await this.#fallback.take(takings);
    }
    const refusing = taken.findIndex(({ isRefused }) => isRefused);
    if (refusing < 0) return { isAllowed: true, counts: taken };
    await Promise.all(taken.slice(refusing + 1).map((count) => count.giveBack()));
    return { isAllowed: false, counts: taken.slice(0, refusing + 1) };
  }

  /**
   * Takes the first limit alone, so that a flood that it refuses does not reach the limits of whole networks, and then the
   * others, which the client puts into one request: seven in turn would not all be answered in time.
   */
  async #takeAll([first, ...others]: readonly Taking[]): Promise<readonly Count[]> {
    if (!first) return [];
    const count = await this.#takeOne(first);
    if (count.isRefused) return [count];
    return [count, ...(await Promise.all(others.map((taking) => this.#takeOne(taking))))];
  }

  async #takeOne({ key, limit }: Taking): Promise<Count> {
    const { success, limit: effective, remaining, reset, reason } = await this.#counterOf(limit).limit(key);
    const resetsInMs = reset - Date.now();
    // The library allows a call without a count, and compares whatever it got.
    const most = success ? limit.limit - 1 : 0;
    const isCounted =
      !reason &&
      effective === limit.limit &&
      Number.isInteger(remaining) &&
      remaining >= 0 &&
      remaining <= most;
    if (!isCounted || !(resetsInMs <= limit.windowMs)) throw new UnusableCount();
    const counted = { limit, isRefused: !success, remaining, resetsInMs: Math.max(1, resetsInMs) };
    // The library names a counter by the number of its window.
    const counter = `${prefixOf(limit)}:${key}:${reset / limit.windowMs - 1}`;
    return countOf(counted, () => this.#giveBack(counter, limit));
  }

  async #giveBack(counter: string, { limit }: Limit): Promise<number | undefined> {
    try {
      const left = await this.#inTime(this.#redis.eval(GIVE_BACK, [counter], [limit]));
      if (typeof left !== 'number' || !(left >= 0 && left < limit)) throw new UnusableCount();
      return limit - left;
    } catch (error) {
      this.#warn(error);
      return undefined;
    }
  }

  #counterOf(limit: Limit): Ratelimit {
    const prefix = prefixOf(limit);
    const counter =
      this.#counters.get(prefix) ??
      new Ratelimit({
        redis: this.#redis,
        prefix,
        limiter: Ratelimit.fixedWindow(limit.limit, `${limit.windowMs} ms`),
        analytics: false,
        // The library's cache of refused keys grows without bound.
        ephemeralCache: false,
        timeout: this.#patienceMs,
      });
    this.#counters.set(prefix, counter);
    return counter;
  }

  /** Limits the time of several requests together; throws `TimeoutError` when it is up. */
  async #inTime<Value>(requests: Promise<Value>): Promise<Value> {
    return await pTimeout(requests, { milliseconds: this.#patienceMs });
  }

  /** Leaves out the error's message: the client's messages repeat the command with its key. */
  #warn(error: unknown): void {
    this.#failures += 1;
    const now = performance.now();
    if (now - this.#warnedAt < WARNING_EVERY_MS) return;
    log('warn', 'rate limits are counted in this process: Redis did not answer with a count', {
      error: error instanceof Error ? error.name : typeof error,
      calls: this.#failures,
    });
    this.#warnedAt = now;
    this.#failures = 0;
  }
}

function prefixOf({ name, limit, windowMs }: Limit): string {
  return `postbud/${name}/${limit}/${windowMs}`;
}

class UnusableCount extends Error {
  override readonly name = 'UnusableCount';
}

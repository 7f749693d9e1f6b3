import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis';

import { log } from '../log.ts';
import { MINUTE } from '../time.ts';
import { takeInTurn } from './limiter.ts';
import type { Count, Limit, Limiter, Verdict } from './limiter.ts';
import { MemoryLimiter } from './memory.ts';

/** A visitor should not wait for the count longer than for a slow answer. */
const PATIENCE_MS = 800;

/** A warning a minute says as much as one for each call. */
const WARNING_EVERY_MS = MINUTE;

export interface RedisLimiterOptions {
  readonly url: string;
  readonly token: string;
  /** Counts while Redis is away. */
  readonly fallback?: Limiter;
  readonly patienceMs?: number;
}

/**
 * Counts in Redis, for all instances together. When Redis does not answer in time, or answers nonsense, the call is
 * counted in this process instead: the library itself would let it through.
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
      // A function: of a signal that is given once, the client makes an answer up when it aborts.
      signal: () => AbortSignal.timeout(this.#patienceMs),
    });
  }

  async take(key: string, limits: readonly Limit[]): Promise<Verdict> {
    try {
      return await within(
        this.#patienceMs,
        takeInTurn(limits, (limit) => this.#takeOne(key, limit)),
      );
    } catch (error) {
      this.#warn(error);
      return await this.#fallback.take(key, limits);
    }
  }

  async #takeOne(key: string, limit: Limit): Promise<Count> {
    const { success, limit: effective, remaining, reset, reason } = await this.#counterOf(limit).limit(key);
    const resetsInMs = reset - Date.now();
    // The library lets a call through whose count it did not get, and compares whatever it got.
    const most = success ? limit.limit - 1 : 0;
    const isCounted =
      !reason &&
      effective === limit.limit &&
      Number.isInteger(remaining) &&
      remaining >= 0 &&
      remaining <= most;
    if (!isCounted || !(resetsInMs <= limit.windowMs)) throw new UnusableCount();
    return { limit, isRefused: !success, remaining, resetsInMs: Math.max(1, resetsInMs) };
  }

  #counterOf(limit: Limit): Ratelimit {
    const prefix = `postbud/${limit.name}/${limit.limit}/${limit.windowMs}`;
    const counter =
      this.#counters.get(prefix) ??
      new Ratelimit({
        redis: this.#redis,
        prefix,
        limiter: Ratelimit.fixedWindow(limit.limit, `${limit.windowMs} ms`),
        analytics: false,
        // Its cache of refused keys grows without bound.
        ephemeralCache: false,
        timeout: this.#patienceMs,
      });
    this.#counters.set(prefix, counter);
    return counter;
  }

  /** Without the error's message: the client's own repeat the command, and with it the key. */
  #warn(error: unknown): void {
    this.#failures += 1;
    const now = performance.now();
    if (now - this.#warnedAt < WARNING_EVERY_MS) return;
    log('warn', 'the rate limits are counted in this process: Redis did not answer as it should', {
      error: error instanceof Error ? error.name : typeof error,
      calls: this.#failures,
    });
    this.#warnedAt = now;
    this.#failures = 0;
  }
}

class UnusableCount extends Error {
  override readonly name = 'UnusableCount';
}

/** Several limits are several requests; one patience is for all of them. */
async function within<Value>(ms: number, work: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DOMException('Redis took too long', 'TimeoutError')), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    work.catch(() => undefined);
  }
}

import type { Limiter } from './limiter.ts';
import { MemoryLimiter } from './memory.ts';

/** Counts in Redis for all instances where one is configured, else in this process. */
export function createLimiter(redis: { readonly url: string; readonly token: string } | undefined): Limiter {
  if (!redis) return new MemoryLimiter();
  // Loaded here, so that functions without limits start without it.
  const loading = import('./redis.ts').then(({ RedisLimiter }) => new RedisLimiter(redis));
  return { take: async (takings) => (await loading).take(takings) };
}

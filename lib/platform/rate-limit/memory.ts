import { countOf } from './limiter.ts';
import type { Count, Limit, Limiter, Taking, Verdict } from './limiter.ts';

/** Keys kept for each limit: about a megabyte, and more visitors than one instance sees in a window. */
const KEYS_KEPT = 10_000;

interface Window {
  readonly startsAt: number;
  calls: number;
}

/**
 * Counts in this process alone: for a single process, or while Redis is unavailable.
 *
 * Forgets the key with the oldest call first. Each limit forgets on its own, so that many visitors cannot make it
 * forget the shared budget.
 */
export class MemoryLimiter implements Limiter {
  readonly #now: () => number;
  readonly #keysKept: number;
  readonly #windows = new Map<string, Map<string, Window>>();

  constructor({ now = Date.now, keysKept = KEYS_KEPT }: { now?: () => number; keysKept?: number } = {}) {
    this.#now = now;
    this.#keysKept = keysKept;
  }

  async take(takings: readonly Taking[]): Promise<Verdict> {
    const counts: Count[] = [];
    for (const taking of takings) {
      const count = this.#takeOne(taking);
      counts.push(count);
      if (count.isRefused) return { isAllowed: false, counts };
    }
    return { isAllowed: true, counts };
  }

  #takeOne({ key, limit }: Taking): Count {
    const now = this.#now();
    const startsAt = now - (now % limit.windowMs);
    const windows = this.#windowsOf(limit);
    const known = windows.get(key);
    const window = known?.startsAt === startsAt ? known : { startsAt, calls: 0 };
    // A map keeps its keys in insertion order: the first has the oldest call.
    windows.delete(key);
    windows.set(key, window);
    if (windows.size > this.#keysKept) windows.delete(windows.keys().next().value ?? key);
    const isRefused = window.calls >= limit.limit;
    if (!isRefused) window.calls += 1;
    const remaining = limit.limit - window.calls;
    return countOf({ limit, isRefused, remaining, resetsInMs: startsAt + limit.windowMs - now }, () => {
      // The window that counted the call; the map may hold a newer one by now.
      window.calls -= 1;
      return limit.limit - window.calls;
    });
  }

  #windowsOf(limit: Limit): Map<string, Window> {
    const name = `${limit.name}/${limit.windowMs}`;
    const windows = this.#windows.get(name) ?? new Map<string, Window>();
    this.#windows.set(name, windows);
    return windows;
  }
}

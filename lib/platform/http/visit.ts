import type { Limiter, Verdict } from '../rate-limit/limiter.ts';
import type { VisitorLimit, Visitors } from '../rate-limit/visitors.ts';
import { rateLimitHeaders, requireAllowed } from './rate-limit.ts';

/** The limits of one visitor, and the limiter that counts them. */
export interface VisitorLimits {
  readonly limiter: Limiter;
  readonly visitors: Visitors;
  /** From the shortest window on. */
  readonly limits: readonly VisitorLimit[];
}

/** A counted request within its visitor's limits. */
export interface Visit {
  /** Stands for the visitor's address and can be kept. */
  readonly visitor: string;
  /** Uncounts an invalid request in the limits that count only valid ones. Never rejects. */
  giveBackInvalid(): Promise<void>;
  /**
   * Uncounts a request in the limits of parts of the day's budget, when it was given back to the budget itself. Never
   * rejects.
   */
  giveBackPart(): Promise<void>;
}

/**
 * Counts a request against the limits of its visitor.
 *
 * An invalid request is counted first and given back afterwards: checking first and counting later would let a burst
 * through.
 *
 * @param headers receives the remaining calls, also when the request is refused.
 * @throws Problem 429 `rate_limited`
 */
export async function countVisit(
  { limiter, visitors, limits }: VisitorLimits,
  request: Request,
  headers: Headers,
): Promise<Visit> {
  const { own, ...networks } = visitors.keysOf(request);
  const takings = limits.flatMap((limit) => {
    const key = limit.network === undefined ? own : networks[limit.network];
    return key === undefined ? [] : [{ key, limit }];
  });
  const applied = takings.map(({ limit }) => limit);
  const writeHeaders = (known: Verdict) => {
    for (const [name, value] of Object.entries(rateLimitHeaders(applied, known))) headers.set(name, value);
  };
  const verdict = await limiter.take(takings);
  writeHeaders(verdict);
  requireAllowed(applied, verdict);
  const giveBack = async (isToGiveBack: (limit: VisitorLimit) => boolean | undefined) => {
    const counts = verdict.counts.map(async (count, index) =>
      isToGiveBack(applied[index]!) ? await count.giveBack() : count,
    );
    writeHeaders({ ...verdict, counts: await Promise.all(counts) });
  };
  return {
    visitor: own,
    giveBackInvalid: () => giveBack(({ onlyValid }) => onlyValid),
    giveBackPart: () => giveBack(({ partOfBudget }) => partOfBudget),
  };
}

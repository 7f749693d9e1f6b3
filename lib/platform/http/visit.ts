import type { Count, Limiter, Verdict } from '../rate-limit/limiter.ts';
import type { VisitorLimit, Visitors } from '../rate-limit/visitors.ts';
import { DAY } from '../time.ts';
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
   * Counts the request against a budget, and first against the share of it that the visitor's network may use.
   *
   * @throws Problem 429 `rate_limited`
   */
  takeBudget(budget: Budget): Promise<Budgeted>;
}

/** One call that was counted against a day's budget. */
export interface Budgeted {
  /** Whether more than half is used of the budget, of the network's share, or of a limit of the visitor. */
  readonly isAboveHalf: boolean;
  /** Uncounts a call that was not made after all, for its network too. Never rejects. */
  giveBack(): Promise<unknown>;
  /** Says that the call was made, so that a budget that comes to its end is noticed. */
  spend(): void;
}

/** How much of a day's budget is used, from where on operators are alerted. */
type BudgetReached = 'budget_80' | 'budget_100';

/** A budget that all visitors share for a day (UTC). */
export interface Budget {
  /** Of the limits: `chat` makes `chat-network` and `chat-budget`. */
  readonly name: string;
  /** Calls a day. */
  readonly perDay: number;
  /** Called for each call that was made or refused when so much of the budget was used. */
  readonly onReached: (reached: BudgetReached) => void;
}

/** How many networks, a /24 of IPv4 or a /48 of IPv6, it takes to use up a day's budget: each may use a twentieth. */
const SHARES = 20;

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
  const { own, share, ...networks } = visitors.keysOf(request);
  const takings = limits.flatMap((limit) => {
    const { network } = limit;
    const key = network === undefined ? own : networks[network];
    const covers = network === undefined ? ('visitor' as const) : ('network' as const);
    return key === undefined ? [] : [{ key, limit: { ...limit, covers } }];
  });
  const applied = takings.map(({ limit }) => limit);
  const writeHeaders = (known: Verdict) => {
    for (const [name, value] of Object.entries(rateLimitHeaders(applied, known))) headers.set(name, value);
  };
  const verdict = await limiter.take(takings);
  writeHeaders(verdict);
  requireAllowed(applied, verdict);
  return {
    visitor: own,
    async giveBackInvalid() {
      const counts = verdict.counts.map(async (count, index) =>
        applied[index]!.onlyValid ? await count.giveBack() : count,
      );
      writeHeaders({ ...verdict, counts: await Promise.all(counts) });
    },
    takeBudget: (budget) => takeBudget(limiter, { share, counts: verdict.counts }, budget),
  };
}

async function takeBudget(
  limiter: Limiter,
  { share, counts }: { readonly share: string; readonly counts: readonly Count[] },
  { name, perDay, onReached }: Budget,
): Promise<Budgeted> {
  const day = { windowMs: DAY };
  const ofNetwork = { ...day, name: `${name}-network`, limit: shareOf(perDay), covers: 'network' } as const;
  const ofAll = { ...day, name: `${name}-budget`, limit: perDay, covers: 'service' } as const;
  // In this order, so that what a network has no share for does not touch the budget, not even until it is given back.
  const verdict = await limiter.take([
    { key: share, limit: ofNetwork },
    { key: 'everyone', limit: ofAll },
  ]);
  const giveBack = () => Promise.all(verdict.counts.map((count) => count.giveBack()));
  // A call that the budget refused does not count for its network either.
  if (!verdict.isAllowed) await giveBack();
  const reached = reachedBy(verdict.counts.find(({ limit }) => limit === ofAll));
  const spend = () => {
    if (reached) onReached(reached);
  };
  if (!verdict.isAllowed) spend();
  requireAllowed([ofNetwork, ofAll], verdict);
  const isAboveHalf = [...counts, ...verdict.counts].some(
    ({ remaining, limit }) => (limit.limit - remaining) * 2 > limit.limit,
  );
  return { isAboveHalf, giveBack, spend };
}

/** @param ofAll undefined: the network's share refused the call, so that nobody knows. */
function reachedBy(ofAll: Count | undefined): BudgetReached | undefined {
  if (!ofAll) return undefined;
  const { remaining, limit } = ofAll;
  if (remaining <= 0) return 'budget_100';
  return (limit.limit - remaining) * 5 >= limit.limit * 4 ? 'budget_80' : undefined;
}

/** Rounded down, and one call at least. */
function shareOf(perDay: number): number {
  return Math.max(1, Math.floor(perDay / SHARES));
}

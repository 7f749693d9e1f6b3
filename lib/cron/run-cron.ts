import { createHash, timingSafeEqual } from 'node:crypto';

import type { Database } from '../db/connect.ts';
import { Problem } from '../http/problem.ts';
import { CRON_BUDGET_MS } from '../lifetime.ts';
import { keepRelaying } from '../relay/keep-relaying.ts';
import type { AttachedSubscriber } from '../subscribers/subscriber.ts';
import { perform } from './duties.ts';
import type { Duty } from './duties.ts';

/**
 * Lets the cron in, and nobody else.
 *
 * @param secret `CRON_SECRET`. Unset it lets nobody in: `Bearer undefined` is what a careless comparison accepts.
 * @throws Problem 503 without a secret, 401 for a request that does not show it.
 */
export function requireCronSecret(request: Request, secret: string | undefined): void {
  if (!secret) throw new Problem('cron_not_configured', { retryAfterSeconds: 60 });
  const shown = request.headers.get('authorization') ?? '';
  // Hashed, so that the comparison takes the same time for every length.
  const [left, right] = [shown, `Bearer ${secret}`].map((text) => createHash('sha256').update(text).digest());
  if (!timingSafeEqual(left!, right!)) {
    throw new Problem('unauthorized', {
      detail: 'The Authorization header does not hold the cron secret.',
      headers: { 'www-authenticate': 'Bearer' },
    });
  }
}

/** @throws Problem 409 where this deployment does not relay: it does none of the duties either. */
export function requireRelays(relays: boolean): void {
  if (!relays) throw new Problem('relay_off');
}

/**
 * One run of the cron: relays until the budget is used, which is past the next call, and beside that performs what else
 * is due once a minute. Nothing of that can keep it from relaying.
 *
 * Runs may be missed, doubled or overlap: relays share the work, and duties are done once.
 *
 * @throws what `keepRelaying` throws.
 */
export async function runCron(options: {
  readonly db: Database;
  readonly subscribers: readonly AttachedSubscriber[];
  readonly duties: readonly Duty[];
  /** By when handlers must have ended; see `RelayOptions`. */
  readonly handlersUntil?: number;
  readonly budgetMs?: number;
  /** Whether each delivery, and each run of the relay, leaves a line in the log. */
  readonly isLogged?: boolean;
}): Promise<Response> {
  const { duties, budgetMs = CRON_BUDGET_MS, ...relaying } = options;
  const [report, performed] = await Promise.all([
    keepRelaying({ ...relaying, until: Date.now() + budgetMs }),
    perform(duties, options.db),
  ]);
  return Response.json({ ...report, ...performed });
}

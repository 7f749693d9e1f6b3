import { createHash, timingSafeEqual } from 'node:crypto';

import { strikeDailyClock } from '../clock/daily.ts';
import type { Database } from '../db/connect.ts';
import { unauthorized, unavailable } from '../http/problem.ts';
import { logError } from '../log.ts';
import { prune } from '../retention/prune.ts';
import type { AttachedSubscriber } from '../subscribers/subscriber.ts';
import { SECOND } from '../time.ts';
import { keepRelaying } from './keep-relaying.ts';

/** The cron calls once a minute: relay until the next call is near. vercel.json's `maxDuration` leaves room for handlers. */
const BUDGET_MS = 55 * SECOND;

/** Some tens of thousands of events: more than a minute brings. */
const PRUNE_BUDGET_MS = 1 * SECOND;

/**
 * Lets the cron in, and nobody else.
 *
 * @param secret `CRON_SECRET`. Unset it lets nobody in: `Bearer undefined` is what a careless comparison accepts.
 * @throws Problem 503 without a secret, 401 for a request that does not show it.
 */
export function requireCronSecret(request: Request, secret: string | undefined): void {
  if (!secret) {
    throw unavailable('cron_not_configured', 'CRON_SECRET is not set.', 60);
  }
  const shown = request.headers.get('authorization') ?? '';
  // Hashed, so that the comparison takes the same time for every length.
  const [left, right] = [shown, `Bearer ${secret}`].map((text) => createHash('sha256').update(text).digest());
  if (!timingSafeEqual(left!, right!)) {
    throw unauthorized('unauthorized', 'The Authorization header does not hold the cron secret.', {
      headers: { 'www-authenticate': 'Bearer' },
    });
  }
}

/**
 * One run of the cron: strikes the daily clock, does what else is due, prunes what is past its time, then relays until
 * the budget is used, also what was emitted just before.
 *
 * Runs may be missed, doubled or overlap: relays share the work, and the clock strikes once.
 */
export async function runCron(options: {
  readonly db: Database;
  readonly subscribers: readonly AttachedSubscriber[];
  readonly budgetMs?: number;
  /** What another part looks after once a run; what it throws is logged. Runs overlap: what it emits has a dedupe key. */
  readonly alsoDue?: (db: Database) => Promise<unknown>;
  /** Whether each delivery, and each run of the relay, leaves a line in the log. */
  readonly isLogged?: boolean;
}): Promise<Response> {
  const { db, subscribers, budgetMs = BUDGET_MS, alsoDue, isLogged = false } = options;
  const until = Date.now() + budgetMs;
  const struck = await strikeDailyClock(db);
  await alsoDue?.(db).catch((error: unknown) => logError('what else was due could not be done', error));
  const pruned = await prune({ db, until: Math.min(until, Date.now() + PRUNE_BUDGET_MS) });
  const report = await keepRelaying({ db, subscribers, until, isLogged });
  return Response.json({ ...report, struck, pruned });
}

import { createHash, timingSafeEqual } from 'node:crypto';

import { keepRelaying } from '../../bus/relay/keep-relaying.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { Problem } from '../../platform/http/problem.ts';
import { CRON_BUDGET_MS } from '../../platform/lifetime.ts';
import { perform } from './duties.ts';
import type { Duty } from './duties.ts';
import { keepStepping } from './keep-stepping.ts';
import type { SteppedWork } from './keep-stepping.ts';
import { steppedWork } from './stepped-work.ts';

/**
 * Checks that a request carries the cron's secret.
 *
 * @param secret `CRON_SECRET`. While it is unset every request is refused, also one with `Bearer undefined`.
 * @throws Problem 503 without a secret, 401 for a request that does not carry it.
 */
export function requireCronSecret(request: Request, secret: string | undefined): void {
  if (!secret) throw new Problem('cron_not_configured', { retryAfterSeconds: 60 });
  const shown = request.headers.get('authorization') ?? '';
  // Hashed, so that the comparison takes the same time for every length.
  const [left, right] = [shown, `Bearer ${secret}`].map((text) => createHash('sha256').update(text).digest());
  if (!timingSafeEqual(left!, right!)) {
    throw new Problem('unauthorized', {
      detail: 'The Authorization header does not carry the cron secret.',
      headers: { 'www-authenticate': 'Bearer' },
    });
  }
}

/** @throws Problem 409 where this deployment does not relay; it performs no duties either. */
export function requireRelays(relays: boolean): void {
  if (!relays) throw new Problem('relay_off');
}

/**
 * Runs the cron once: relays until its budget is used up, which is after the next call. Meanwhile it performs
 * the duties and takes the steps of longer work (lib/edge/cron/stepped-work.ts). Neither can stop it from relaying.
 *
 * Runs may be missed, doubled or overlap: relays share the work, and each duty takes effect once.
 *
 * @throws what `keepRelaying` throws.
 */
export async function runCron(options: {
  readonly db: Database;
  readonly subscribers: readonly AttachedSubscriber[];
  readonly duties: readonly Duty[];
  /** Work in steps that this deployment takes besides that of `steppedWork`. */
  readonly work?: readonly SteppedWork[];
  /** When handlers must have ended; see `RelayOptions`. */
  readonly handlersUntil?: number;
  readonly budgetMs?: number;
  /** Whether each delivery, and each run of the relay, writes a line to the log. */
  readonly isLogged?: boolean;
  /** Called once, after the relay's first turn. Must not reject. */
  readonly heartbeat?: () => Promise<void>;
}): Promise<Response> {
  const { duties, work: further = [], budgetMs = CRON_BUDGET_MS, heartbeat, ...relaying } = options;
  const until = Date.now() + budgetMs;
  let beating: Promise<void> | undefined;
  const onTurn = () => void (beating ??= heartbeat?.());
  const work = [...steppedWork(options.subscribers), ...further];
  const [report, { undone, ...performed }, succeeded] = await Promise.all([
    keepRelaying({ ...relaying, onTurn, until }),
    perform(duties, options.db),
    Promise.all(work.map((one) => keepStepping(one, { db: options.db, until }))),
  ]);
  await beating;
  return Response.json({
    ...report,
    ...performed,
    undone: [...undone, ...work.flatMap(({ name }, index) => (succeeded[index] ? [] : [name]))],
  });
}

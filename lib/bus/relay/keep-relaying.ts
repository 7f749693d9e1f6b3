import { logError } from '../../platform/log.ts';
import { SECOND, sleep } from '../../platform/time.ts';
import { nextTimerInMs } from '../outbox/release-timers.ts';
import { glancesAt } from './glance.ts';
import { relay } from './relay.ts';
import type { RelayOptions } from './relay.ts';
import { addReports } from './report.ts';
import type { RelayReport } from './report.ts';

/** How often the cron's loop looks for work when it knows of none. */
export const LOOK_EVERY_MS = 5 * SECOND;

/** Timers fire up to a millisecond early, and a relay that looks before the retry is due finds nothing. */
const SLACK_MS = 2;

/**
 * Runs one relay after the other until the time is up: every 5 seconds, and sooner when a retry or a timer is due. The error of a
 * relay is logged, and the next one tries again.
 *
 * @param options with `until: Infinity` it runs until `signal` or `stop` aborts. A process that nobody kicks glances in
 *   between (`glanceEveryMs`).
 * @returns the sum of the relays' reports.
 * @throws the error of the last relay, if all of them failed.
 */
export async function keepRelaying({
  glanceEveryMs,
  ...options
}: RelayOptions & { readonly glanceEveryMs?: number }): Promise<RelayReport> {
  const { db, until, signal, stop = signal } = options;
  const glances = glancesAt(db);
  let total: RelayReport | null = null;
  for (;;) {
    let retryAt = Infinity;
    let failure: unknown;
    try {
      const report = await relay(options);
      total = total ? addReports(total, report) : report;
      retryAt = report.nextRetryAt ?? Infinity;
    } catch (error) {
      failure = error;
      if (!signal?.aborted) logError('the relay stopped; it tries again in a few seconds', error);
    }
    const dueAt = Math.min(retryAt, Date.now() + nextTimerInMs(db));
    const nextAt = Math.min(Date.now() + LOOK_EVERY_MS, Math.max(dueAt + SLACK_MS, Date.now()));
    if (nextAt >= until || signal?.aborted || stop?.aborted) {
      if (!total) throw failure;
      return total;
    }
    // The next relay logs the error of a glance.
    if (glanceEveryMs !== undefined && failure === undefined)
      await glances(glanceEveryMs, nextAt, stop).catch(() => undefined);
    else await sleep(nextAt - Date.now(), stop);
  }
}

import { logError } from '../log.ts';
import { SECOND, sleep } from '../time.ts';
import { relay } from './relay.ts';
import type { RelayOptions } from './relay.ts';
import { addReports } from './report.ts';
import type { RelayReport } from './report.ts';

/** How often a relay looks for work when it knows of none. */
export const TICK_MS = 5 * SECOND;

/** Timers are early by up to a millisecond, and a look that comes before its retry is due finds nothing. */
const SLACK_MS = 2;

/**
 * Runs relays until the time is up: every 5 seconds, and sooner when a retry is due. What one throws is logged; the next
 * one tries again.
 *
 * @param options with `until: Infinity` it goes on until the signal aborts.
 * @returns what they did, together.
 * @throws what the last relay threw, if all of them did.
 */
export async function keepRelaying(options: RelayOptions): Promise<RelayReport> {
  const { until, signal } = options;
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
      if (!signal?.aborted) logError('the relay stopped; it goes on with the next tick', error);
    }
    const nextAt = Math.min(Date.now() + TICK_MS, Math.max(retryAt + SLACK_MS, Date.now()));
    if (nextAt >= until || signal?.aborted) {
      if (!total) throw failure;
      return total;
    }
    await sleep(nextAt - Date.now(), signal);
  }
}

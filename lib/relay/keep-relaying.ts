import { SECOND, sleep } from '../time.ts';
import { relay } from './relay.ts';
import type { RelayOptions, RelayReport } from './relay.ts';

/** How often a relay looks for work when it knows of none. */
export const TICK_MS = 5 * SECOND;

/**
 * Runs relays until the time is up: every 5 seconds, and sooner when a retry is due.
 *
 * @returns what they did, together.
 * @throws what `relay` throws.
 */
export async function keepRelaying(options: RelayOptions): Promise<RelayReport> {
  const { until, signal } = options;
  let total: RelayReport | null = null;
  for (;;) {
    const report = await relay(options);
    total = total ? added(total, report) : report;
    const nextAt = Math.min(Date.now() + TICK_MS, Math.max(report.nextRetryAt ?? Infinity, Date.now()));
    if (nextAt >= until || signal?.aborted) return total;
    await sleep(nextAt - Date.now(), signal);
  }
}

function added(total: RelayReport, report: RelayReport): RelayReport {
  return {
    fannedOut: total.fannedOut + report.fannedOut,
    delivered: total.delivered + report.delivered,
    failed: total.failed + report.failed,
    waited: total.waited + report.waited,
    deadLettered: total.deadLettered + report.deadLettered,
    leasesLost: total.leasesLost + report.leasesLost,
    ticks: total.ticks + report.ticks,
    nextRetryAt: report.nextRetryAt,
  };
}

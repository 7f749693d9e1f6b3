/** The counts of what a relay did, as the database confirmed it. */
export interface RelayReport {
  fannedOut: number;
  delivered: number;
  /** Failed attempts that will be retried. */
  failed: number;
  /** Attempts whose handler asked to wait with `RetryAfter`. */
  waited: number;
  deadLettered: number;
  /** Lanes that another relay took while this one held them. */
  leasesLost: number;
  /** Turns of all claim loops. */
  ticks: number;
  /** The earliest retry that this relay scheduled, in epoch milliseconds; null when it scheduled none. */
  nextRetryAt: number | null;
}

export function emptyReport(): RelayReport {
  return {
    fannedOut: 0,
    delivered: 0,
    failed: 0,
    waited: 0,
    deadLettered: 0,
    leasesLost: 0,
    ticks: 0,
    nextRetryAt: null,
  };
}

/** Adds the reports of two relays that ran one after the other; the next retry is that of the later one. */
export function addReports(earlier: RelayReport, later: RelayReport): RelayReport {
  return {
    fannedOut: earlier.fannedOut + later.fannedOut,
    delivered: earlier.delivered + later.delivered,
    failed: earlier.failed + later.failed,
    waited: earlier.waited + later.waited,
    deadLettered: earlier.deadLettered + later.deadLettered,
    leasesLost: earlier.leasesLost + later.leasesLost,
    ticks: earlier.ticks + later.ticks,
    nextRetryAt: later.nextRetryAt,
  };
}

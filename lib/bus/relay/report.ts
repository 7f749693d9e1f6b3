/** The counts of what a relay did, as the database confirmed it. */
export type RelayReport = ReturnType<typeof emptyReport>;

export function emptyReport() {
  return {
    placed: 0,
    delivered: 0,
    /** Failed attempts that will be retried. */
    failed: 0,
    /** Attempts whose handler asked to wait with `RetryAfter`. */
    waited: 0,
    deadLettered: 0,
    /** Lanes that another relay took while this one held them. */
    leasesLost: 0,
    /** Turns of all claim loops. */
    ticks: 0,
    /** The earliest retry that this relay scheduled, in epoch milliseconds; null when it scheduled none. */
    nextRetryAt: null as number | null,
  };
}

/** Adds the reports of two relays that ran one after the other; the next retry is that of the later one. */
export function addReports(earlier: RelayReport, later: RelayReport): RelayReport {
  return {
    placed: earlier.placed + later.placed,
    delivered: earlier.delivered + later.delivered,
    failed: earlier.failed + later.failed,
    waited: earlier.waited + later.waited,
    deadLettered: earlier.deadLettered + later.deadLettered,
    leasesLost: earlier.leasesLost + later.leasesLost,
    ticks: earlier.ticks + later.ticks,
    nextRetryAt: later.nextRetryAt,
  };
}

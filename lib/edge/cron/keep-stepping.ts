import type { Database } from '../../platform/db/connect.ts';
import { logError } from '../../platform/log.ts';
import { SECOND, sleep } from '../../platform/time.ts';

/** Work that goes on in short steps beside the relay. Several processes may take its steps at the same time. */
export interface SteppedWork {
  /** Shown in the log and in the cron's answer when a step failed. */
  readonly name: string;
  /**
   * Takes the steps that are due, and begins none after `until`.
   *
   * @returns in how many milliseconds the next one is due; null for the usual wait.
   * @throws what the cron logs. It tries again after the usual wait.
   */
  readonly step: (
    db: Database,
    options: { readonly until: number; readonly signal?: AbortSignal },
  ) => Promise<number | null>;
}

/** How often work is looked at: nobody notices that it begins a few seconds late. */
const LOOK_EVERY_MS = 3 * SECOND;

/** Work that is due sooner is looked at this often at most. */
const SHORTEST_WAIT_MS = 0.1 * SECOND;

/** Steps begin within this time, so that work takes a tenth of one processor at most, unless it is due sooner. */
const SLICE_MS = 0.2 * SECOND;

/**
 * Takes the steps of some work, a slice every few seconds, until the time is up. An error is logged, and the next slice
 * tries again.
 *
 * @param options with `until: Infinity` it runs until the signal aborts.
 * @returns whether the last slice succeeded.
 */
export async function keepStepping(
  work: SteppedWork,
  { db, until, signal }: { readonly db: Database; readonly until: number; readonly signal?: AbortSignal },
): Promise<boolean> {
  for (;;) {
    const { hasSucceeded, waitMs } = await stepBriefly(work, db, signal);
    if (Date.now() + waitMs >= until || signal?.aborted) return hasSucceeded;
    await sleep(waitMs, signal);
  }
}

async function stepBriefly({ name, step }: SteppedWork, db: Database, signal?: AbortSignal) {
  try {
    const dueInMs = await step(db, { until: Date.now() + SLICE_MS, ...(signal && { signal }) });
    const waitMs = Math.min(LOOK_EVERY_MS, Math.max(SHORTEST_WAIT_MS, dueInMs ?? LOOK_EVERY_MS));
    return { hasSucceeded: true, waitMs };
  } catch (error) {
    if (!signal?.aborted) logError('a step of the cron failed', error, { work: name });
    return { hasSucceeded: false, waitMs: LOOK_EVERY_MS };
  }
}

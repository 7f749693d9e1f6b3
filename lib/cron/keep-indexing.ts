import type { Database } from '../db/connect.ts';
import { indexEvents } from '../identifiers/index-events.ts';
import { logError } from '../log.ts';
import { SECOND, sleep } from '../time.ts';

/** Events are found in the index some seconds after their fan-out; until then they are searched one by one. */
const LOOK_EVERY_MS = 3 * SECOND;

/**
 * A step begins within this time, so a slice is a tenth of one processor at most, even while a million events are missing:
 * more than a thousand events a second.
 */
const SLICE_MS = 0.2 * SECOND;

/**
 * Keeps the index of identifiers up to date, a slice every few seconds, until the time is up. An error is logged, and the
 * next slice tries again.
 *
 * @param options with `until: Infinity` it runs until the signal aborts.
 * @returns whether the last slice succeeded.
 */
export async function keepIndexing({
  db,
  until,
  signal,
}: {
  readonly db: Database;
  readonly until: number;
  readonly signal?: AbortSignal;
}): Promise<boolean> {
  for (;;) {
    const isIndexed = await indexBriefly(db, signal);
    if (Date.now() + LOOK_EVERY_MS >= until || signal?.aborted) return isIndexed;
    await sleep(LOOK_EVERY_MS, signal);
  }
}

async function indexBriefly(db: Database, signal?: AbortSignal): Promise<boolean> {
  try {
    await indexEvents({ db, until: Date.now() + SLICE_MS, ...(signal && { signal }) });
    return true;
  } catch (error) {
    if (!signal?.aborted) logError('identifiers of events were not indexed', error);
    return false;
  }
}

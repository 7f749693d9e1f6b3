import type { PastAttempt } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { Received } from './received.ts';

/** An attempt as the bus has recorded it. */
export interface RecordedAttempt {
  readonly outcome: Exclude<Received['outcome'], 'not_counted'>;
  readonly error: Error | null;
}

/** The error of an attempt whose handler threw none: it ran out of time, or did not take the event. */
class RecordedError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'RecordedError';
    this.code = code;
  }
}

/** Reads all attempts of deliveries, the oldest first, with those before a replay. */
export async function attemptsOf(
  db: Database,
  deliveryIds: readonly string[],
): Promise<ReadonlyMap<string, readonly RecordedAttempt[]>> {
  const found = await run<Stored>(driverOf(db), {
    text: `select chosen.id, state::text, coalesce(attempt_log, '[]') as log
      from jsonb_array_elements_text($1::text::jsonb) as chosen(id)
        join deliveries on event_id = split_part(chosen.id, '.', 1)::uuid and subscriber = split_part(chosen.id, '.', 2)`,
    values: [JSON.stringify(deliveryIds)],
  });
  return new Map(found.map((stored) => [stored.id, recordedIn(stored)]));
}

interface Stored {
  readonly id: string;
  readonly state: string;
  readonly log: readonly PastAttempt[];
}

function recordedIn({ state, log }: Stored): RecordedAttempt[] {
  const attempts = log.flatMap(({ outcome, kind, message }): RecordedAttempt[] => {
    if (outcome === 'delivered') return [{ outcome, error: null }];
    if (outcome !== 'failed' && outcome !== 'waited') return [];
    return [{ outcome, error: new RecordedError(kind ?? 'unknown', message ?? '') }];
  });
  // The attempt that delivered is logged when a replay follows.
  if (state === 'delivered') return [...attempts, { outcome: 'delivered', error: null }];
  if (state === 'dead_lettered' && log.at(-1)?.outcome === 'failed')
    return [...attempts.slice(0, -1), { ...attempts.at(-1)!, outcome: 'dead_lettered' }];
  return attempts;
}

/** When the earliest delivery that waits for its retry is due; null when none waits. */
export async function nextRetryAt(db: Database): Promise<number | null> {
  const [row] = await run<{ at: number | null }>(driverOf(db), {
    text: `select (extract(epoch from min(next_attempt_at)) * 1000)::float8 as at from exceptions
      where is_open and state in ('pending', 'failing')`,
    values: [],
  });
  return row!.at;
}

/** Lists the deliveries that are dead letters now, in the order of their deaths. */
export async function deadLetterIds(db: Database): Promise<readonly string[]> {
  const found = await run<{ id: string }>(driverOf(db), {
    text: `select event_id || '.' || subscriber as id from exceptions join lanes on lanes.id = lane
      where dead_lettered_at is not null order by dead_lettered_at, lane, position`,
    values: [],
  });
  return found.map(({ id }) => id);
}

import { run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';

/** What is in the outbox. */
export interface Waiting {
  readonly count: number;
  /** The age of the oldest event, in seconds; null for an empty outbox. */
  readonly oldestAgeSeconds: number | null;
}

/** Counts what waits to be forwarded, for a health check: a forwarder that runs keeps the oldest at a few seconds. */
export async function waiting(db: Executor): Promise<Waiting> {
  const [row] = await run<{ count: number; age: number | null }>(db, { text: WAITING, values: [] });
  return { count: row!.count, oldestAgeSeconds: row!.age };
}

const WAITING = `
  select count(*)::float8 as count,
    case when count(*) > 0 then greatest(extract(epoch from clock_timestamp() - min(recorded_at)), 0)::float8 end as age
  from postbud_outbox`;

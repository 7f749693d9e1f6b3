import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { BACKLOG_AGES } from './backlog-ages.ts';

/**
 * Records how old the oldest unfinished delivery of each subscriber is, as the age of this hour's backlog if none was older.
 *
 * @param now overrides the database's clock in tests.
 */
export async function sampleBacklog(db: Database, now?: Date): Promise<void> {
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    await run(tx, { text: SAMPLE_BACKLOG, values: [now?.toISOString() ?? null, null] });
  });
}

// Sorted by the primary key, like every statement on this table.
const SAMPLE_BACKLOG = `
  with ${BACKLOG_AGES}
  insert into subscriber_health as known (subscriber, topic, period, starts_at, backlog_age_ms)
  select subscriber, '', 'hour', date_trunc('hour', clock.now, 'UTC'), ms from clock, age
  order by subscriber
  on conflict (subscriber, topic, period, starts_at)
    do update set backlog_age_ms = greatest(known.backlog_age_ms, excluded.backlog_age_ms)`;

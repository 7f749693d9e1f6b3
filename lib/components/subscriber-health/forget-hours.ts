import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';

/**
 * Deletes hours that began more than a day ago: the metrics show the backlog of the present one. Any number may run at once.
 *
 * @param now overrides the database's clock in tests.
 */
export async function forgetHours(db: Database, now?: Date): Promise<void> {
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    await run(tx, { text: FORGET_HOURS, values: [now?.toISOString() ?? null] });
  });
}

// The instant is compared by a subquery, because a volatile function is no bound of an index. A release before 2.0 added
// hours up to days.
const FORGET_HOURS = `
  with clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  ),
  old as materialized (
    select subscriber, topic, period, starts_at from subscriber_health
    where period in ('hour', 'day') and starts_at < (select now - interval '1 day' from clock)
    for update skip locked
  )
  delete from subscriber_health as health using old
  where health.subscriber = old.subscriber and health.topic = old.topic and health.period = old.period
    and health.starts_at = old.starts_at`;

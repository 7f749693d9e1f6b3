import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';

/** A call rolls up at most this many days, of which there is one a day; more only after the cron has stood still. */
const MOST_DAYS = 10;

/**
 * Adds up the hours of days that ended two days ago or earlier, each to one row for the day, and deletes days that are
 * past thirty. Any number may run at once.
 *
 * @param now overrides the database's clock in tests.
 */
export async function rollUpHealth(db: Database, now?: Date): Promise<void> {
  const values = [now?.toISOString() ?? null];
  for (let day = 0; day < MOST_DAYS; day += 1) {
    const [row] = await db.transaction(async (tx) => {
      await limitStatements(tx);
      return await run<{ hours: number }>(tx, { text: ROLL_UP_DAY, values });
    });
    if (row!.hours === 0) break;
  }
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    await run(tx, { text: FORGET_DAYS, values });
  });
}

// Instants are compared by subqueries, because a volatile function is no bound of an index. One day at a time, so that the statement stays short. Two calls may each take a part of the hours: what they add up to
// is the same.
const ROLL_UP_DAY = `
  with clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  ),
  oldest_day as materialized (
    select date_trunc('day', min(starts_at), 'UTC') as day from subscriber_health
    where period = 'hour'
      and starts_at < (select date_trunc('day', clock.now - interval '48 hours', 'UTC') from clock)
  ),
  old as materialized (
    select subscriber, topic, starts_at from subscriber_health
    where period = 'hour' and starts_at >= (select day from oldest_day)
      and starts_at < (select day + interval '24 hours' from oldest_day)
    for update skip locked
  ),
  hour as (
    delete from subscriber_health using old
    where subscriber_health.subscriber = old.subscriber and subscriber_health.topic = old.topic and period = 'hour'
      and subscriber_health.starts_at = old.starts_at
    returning subscriber_health.*
  ),
  summed as (
    select subscriber, topic, sum(delivered) as delivered, sum(failed) as failed, sum(dead_lettered) as dead_lettered,
      sum(replays_delivered) as replays_delivered, sum(replays_dead_lettered) as replays_dead_lettered,
      postbud_sum_1(delivered_in) as delivered_in, sum(delivered_ms) as delivered_ms,
      postbud_sum_1(handled_in) as handled_in, sum(handled_ms) as handled_ms, max(backlog_age_ms) as backlog_age_ms
    from hour group by subscriber, topic
  ),
  added as (
    insert into subscriber_health as known (subscriber, topic, period, starts_at, delivered, failed, dead_lettered,
      replays_delivered, replays_dead_lettered, delivered_in, delivered_ms, handled_in, handled_ms, backlog_age_ms)
    select subscriber, topic, 'day', day, delivered, failed, dead_lettered, replays_delivered, replays_dead_lettered,
      delivered_in, delivered_ms, handled_in, handled_ms, backlog_age_ms
    from oldest_day, summed
    order by subscriber, topic
    on conflict (subscriber, topic, period, starts_at) do update set
      delivered = known.delivered + excluded.delivered,
      failed = known.failed + excluded.failed,
      dead_lettered = known.dead_lettered + excluded.dead_lettered,
      replays_delivered = known.replays_delivered + excluded.replays_delivered,
      replays_dead_lettered = known.replays_dead_lettered + excluded.replays_dead_lettered,
      delivered_in = postbud_add_1(known.delivered_in, excluded.delivered_in),
      delivered_ms = known.delivered_ms + excluded.delivered_ms,
      handled_in = postbud_add_1(known.handled_in, excluded.handled_in),
      handled_ms = known.handled_ms + excluded.handled_ms,
      backlog_age_ms = greatest(known.backlog_age_ms, excluded.backlog_age_ms)
  )
  select count(*)::int as hours from hour`;

/** The page shows thirty days, of which the last two or three are hours. */
const FORGET_DAYS = `
  with clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  )
  delete from subscriber_health
  where period = 'day'
    and starts_at < (select date_trunc('day', clock.now, 'UTC') - interval '30 days' from clock)`;

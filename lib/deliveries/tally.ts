// Pieces of the statements that change states: each also adds to `backlog` and `throughput` what it changed, so that
// how much is where is known without counting. Rows are locked after lanes and events, backlog before throughput
// before error groups, each sorted: statements that meet there can't wait for each other in a ring.

/** Statements that run at the same time seldom share a row: each backend has one of 64. */
const SHARD = 'pg_backend_pid() % 64';

/**
 * Adds the rows of the CTE `backlog_change` (topic, subscriber, pending, failing, dead_lettered, last_delivered_at,
 * last_failed_at, delivered_total, failed_total, dead_lettered_total). To be a CTE named `added`.
 */
export const ADD_TO_BACKLOG = `
    insert into backlog as total (topic, subscriber, shard, pending, failing, dead_lettered, last_delivered_at,
      last_failed_at, delivered_total, failed_total, dead_lettered_total)
    select topic, subscriber, ${SHARD}, pending, failing, dead_lettered, last_delivered_at, last_failed_at,
      delivered_total, failed_total, dead_lettered_total
    from backlog_change order by topic, subscriber
    on conflict (topic, subscriber, shard) do update set pending = total.pending + excluded.pending,
      failing = total.failing + excluded.failing, dead_lettered = total.dead_lettered + excluded.dead_lettered,
      last_delivered_at = greatest(total.last_delivered_at, excluded.last_delivered_at),
      last_failed_at = greatest(total.last_failed_at, excluded.last_failed_at),
      delivered_total = total.delivered_total + excluded.delivered_total,
      failed_total = total.failed_total + excluded.failed_total,
      dead_lettered_total = total.dead_lettered_total + excluded.dead_lettered_total
    returning topic`;

/**
 * Adds the rows of the CTE `hour_change` (topic, delivered, first_attempt, dead_lettered) to the hour of the CTE
 * `clock`. To be a CTE named `counted`, after `added`.
 */
export const ADD_TO_THROUGHPUT = `
    insert into throughput as total (hour, topic, shard, delivered, first_attempt, dead_lettered)
    select date_trunc('hour', clock.now, 'UTC'), topic, ${SHARD}, delivered, first_attempt, dead_lettered
    from clock, hour_change where (select count(*) from added) >= 0 order by topic
    on conflict (hour, topic, shard) do update set delivered = total.delivered + excluded.delivered,
      first_attempt = total.first_attempt + excluded.first_attempt,
      dead_lettered = total.dead_lettered + excluded.dead_lettered
    returning topic`;

/**
 * Adds the rows of the CTE `dead` (key, topic, subscriber, kind, message, count) to the error groups. To be a CTE,
 * after `counted`.
 */
export const ADD_TO_ERROR_GROUPS = `
    insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
    select key, topic, subscriber, kind, message, count
    from dead where (select count(*) from counted) >= 0 order by key
    on conflict (key) do update set dead_lettered = known.dead_lettered + excluded.dead_lettered`;

/** The worst state of an event's deliveries, as its generated column has it, from other counters than the stored. */
export function eventState(open: string, failing: string, deadLettered: string): string {
  return `(case when ${deadLettered} > 0 then 'dead_lettered' when ${failing} > 0 then 'failing'
    when ${open} > 0 then 'pending' else 'delivered' end)::delivery_state`;
}

/** The columns of `backlog_change` that tell of settled attempts, where none was. */
export const NOTHING_SETTLED = `
    null::timestamptz as last_delivered_at, null::timestamptz as last_failed_at, 0 as delivered_total,
    0 as failed_total, 0 as dead_lettered_total`;

/** Counts the change of events from the state `was` to the state `becomes`, as columns of `backlog_change`. */
export const EVENTS_MOVED = `
    topic, '' as subscriber, sum((becomes = 'pending')::int - (was = 'pending')::int) as pending,
    sum((becomes = 'failing')::int - (was = 'failing')::int) as failing,
    sum((becomes = 'dead_lettered')::int - (was = 'dead_lettered')::int) as dead_lettered,
    ${NOTHING_SETTLED}`;

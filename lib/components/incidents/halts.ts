// Parts of statements about the dead letters that halt their lane, or their key in a shared one. A row of `halts` counts only
// while its delivery is a dead letter that nobody dismissed.

/** Lanes of a subscription that operators are shown a number of; more say no more. */
export const LANES_COUNTED = 2000;

/** Selects the dead letters that halt something now, with all columns of `halts` and some of `deliveries`. */
export const HALTING = `
    select halts.*, deliveries.error_group, deliveries.event_id
    from halts join deliveries on deliveries.lane_id = halts.lane_id and deliveries.position = halts.position
    where deliveries.state = 'dead_lettered' and deliveries.dismissed_at is null`;

/**
 * Selects the same of each subscription with dead letters, but of so many rows of `halts` only: there may be one for each
 * ordering key. Rows that an older release has left, and that count no more, may be among them.
 */
export const HALTING_COUNTED = `
    select halts.*, dead.error_group, dead.event_id
    from (
      select topic, subscriber from backlog where subscriber <> '' group by topic, subscriber
      having sum(dead_lettered) > 0
    ) as subscription, lateral (
      select * from halts where halts.topic = subscription.topic and halts.subscriber = subscription.subscriber
      limit ${LANES_COUNTED}
    ) as halts, lateral (
      -- The limit keeps the planner from joining whole tables.
      select error_group, event_id, state, dismissed_at from deliveries
      where deliveries.lane_id = halts.lane_id and deliveries.position = halts.position limit 1
    ) as dead
    where dead.state = 'dead_lettered' and dead.dismissed_at is null`;

/** Counts the unfinished deliveries that wait behind a halting dead letter. @param halt the alias of its row. */
export const waitingBehind = (halt: string, limit: number) => `(
      select count(*) from (
        (
          select from deliveries as behind
          where ${halt}.lane_key is null and behind.lane_id = ${halt}.lane_id and behind.position > ${halt}.position
            and coalesce(behind.state in ('pending', 'failing'), false)
          order by behind.position limit ${limit}
        )
        union all
        (
          -- The row is compared as the index of keys has it.
          select from deliveries as behind
          where (behind.lane_id, behind.lane_key, behind.position) > (${halt}.lane_id, ${halt}.lane_key, ${halt}.position)
            and behind.lane_id = ${halt}.lane_id and behind.lane_key = ${halt}.lane_key
            and coalesce(behind.state in ('pending', 'failing'), false)
          order by behind.lane_id, behind.lane_key, behind.position limit ${limit}
        )
      ) as waiting
    )`;

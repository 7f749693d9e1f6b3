import { PRUNE_LOCK } from '../locks.ts';
import { recounted } from '../recount.ts';

// How a replay puts deliveries back. One statement locks, and the next one changes; see locks.ts.

/** A CTE that keeps the deliveries from being pruned meanwhile. */
export const PRUNING = `
  pruning as materialized (
    select pg_advisory_xact_lock_shared(${PRUNE_LOCK}, 0)
  )`;

/** The newest entries of a delivery's log whose answers a replay keeps: two rounds of five attempts. */
const ANSWERS_KEPT = 10;

/**
 * The lease under which a delivery is put before others. That relay can't have begun it, and so has not died of it; see
 * `postbud_next_batch_1`.
 */
const HELD_BY = `
            coalesce((select lease_token from lanes where home_id = deliveries.lane_id and held_key = deliveries.lane_key),
              (select lease_token from lanes where id = deliveries.lane_id))`;

/**
 * The CTEs from `put_back` on, which return deliveries to pending. The transaction holds the lock of pruning and the lanes
 * of the deliveries. A statement that changes the lane of a key in trouble also locks its home, so with the homes locked no
 * such lane is added or deleted.
 *
 * They read `clock` (now), `replaying` (id, operator, reason) and `chosen` (lane_id, position, topic, subscriber,
 * error_group). The lane's head moves back to before the first of them; a relay that holds the lane sees that when it
 * settles.
 */
export const PUT_BACK = `
  put_back as (
    update deliveries set state = 'pending', attempts = 0, next_attempt_at = null, dead_lettered_at = null,
      delivered_at = null, error_group = null, dismissed_at = null, replayed_at = clock.now, replays = deliveries.replays + 1,
      -- Else the log of a delivery that is replayed again and again would grow by a page of text each time.
      attempt_log = case when jsonb_array_length(attempt_log) > ${ANSWERS_KEPT} then (
          select jsonb_agg(case when number > jsonb_array_length(attempt_log) - ${ANSWERS_KEPT} then entry
            else entry - 'answer' end order by number)
          from jsonb_array_elements(attempt_log) with ordinality as logged(entry, number)
        ) else coalesce(attempt_log, '[]') end
        || case when deliveries.state = 'delivered' then jsonb_build_array(jsonb_build_object('attempt', attempts,
          'at', attempted_at, 'durationMs', duration_ms, 'outcome', 'delivered')) else '[]' end
        || jsonb_build_array(jsonb_build_object('attempt', 0, 'at', clock.now, 'durationMs', 0, 'outcome', 'replayed',
          'replayId', replaying.id, 'by', replaying.operator, 'reason', replaying.reason, 'group', chosen.error_group,
          'heldBy', ${HELD_BY}))
    from clock, replaying, chosen
    where deliveries.lane_id = chosen.lane_id and deliveries.position = chosen.position
    returning deliveries.lane_id, deliveries.lane_key, deliveries.position, deliveries.event_id, topic, subscriber,
      chosen.error_group, (chosen.error_group is not null)::int as was_dead
  ),
  -- Else it would halt its lane when it dies again, whatever its subscription does then after a dead letter.
  halt as (
    delete from halts using put_back where halts.lane_id = put_back.lane_id and halts.position = put_back.position
  ),
  moved_lane as (
    -- Always to another value while a relay holds the lane, so that its settlement sees that the head moved.
    update lanes set head = least(head, first.position - 1) - (lease_token is not null)::int, waits_for_version = null,
      due_at = case when lease_token is null then clock.now else due_at end
    from clock, (
      select coalesce(of_key.id, lane_id) as id, min(position) as position
      from put_back left join lanes as of_key on of_key.home_id = lane_id and of_key.held_key = lane_key
      group by 1
    ) as first
    where lanes.id = first.id
  ),
  changed as materialized (
    select event_id, topic, subscriber, error_group, 1 as open, 0 as failing, -was_dead as dead from put_back
  ),${recounted('(select now from clock)')}`;

import { PRUNE_LOCK } from '../locks.ts';

// How a replay puts deliveries back. One statement locks, and the next one changes; see locks.ts.

/** A CTE that keeps the deliveries from being pruned meanwhile. */
export const PRUNING = `
  pruning as materialized (
    select pg_advisory_xact_lock_shared(${PRUNE_LOCK}, 0)
  )`;

/** SQL of a replay's id, its operator and the reason. */
interface Replaying {
  readonly id: string;
  readonly by: string;
  readonly reason: string;
}

/**
 * The CTE `put_back` (topic, subscriber and count), which returns deliveries to pending. It reads `clock` (now) and `chosen`
 * (lane, position, topic and subscriber). The transaction holds the lock of pruning and those of the lanes.
 */
export const putBackBy = ({ id, by, reason }: Replaying) => `
  put_back as materialized (
    select topic, subscriber, postbud_replay_1(lane, positions, jsonb_build_object('attempt', 0, 'at', clock.now,
      'durationMs', 0, 'outcome', 'replayed', 'replayId', ${id}, 'by', ${by}, 'reason', ${reason}), clock.now) as count
    from clock, (
      select lane, topic, subscriber, array_agg(position) as positions from chosen group by lane, topic, subscriber
    ) as of_lane
  )`;

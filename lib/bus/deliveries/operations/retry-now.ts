import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { NotActedOn, onFirstOfLane } from './first-of-lane.ts';
import type { ActedOn } from './first-of-lane.ts';

/**
 * Makes the retry that a lane waits for due now, and records the operator. While its subscriber does not answer, also the
 * next probe: the deliveries that follow wait for that, whether they are due or not.
 *
 * @param now overrides the database's clock in tests.
 * @throws NotActedOn
 */
export async function retryNow(
  db: Database,
  asked: {
    readonly deliveryId: string;
    readonly by: string;
    readonly reason?: string | null;
    /** The incident whose lanes are retried. */
    readonly incidentId?: string;
    readonly now?: Date;
  },
): Promise<ActedOn> {
  const { deliveryId, by, reason = null, incidentId = null, now } = asked;
  return await onFirstOfLane(db, deliveryId, async (tx, { id, laneId, topic, subscriber }) => {
    const retried = await run(tx, {
      text: RETRY_NOW,
      values: [
        id.home,
        id.position,
        laneId,
        by,
        reason,
        now?.toISOString() ?? null,
        uuidv7(),
        topic,
        subscriber,
        incidentId,
      ],
    });
    if (retried.length === 0) throw new NotActedOn('not_waiting');
  });
}

const RETRY_NOW = `
  with clock as materialized (
    select coalesce($6::text::timestamptz, clock_timestamp()) as now
  ),
  retried as (
    update deliveries set next_attempt_at = case when next_attempt_at > clock.now then clock.now else next_attempt_at end,
      attempt_log = coalesce(attempt_log, '[]') || jsonb_build_object('attempt', 0, 'at', clock.now, 'durationMs', 0,
        'outcome', 'retried_early', 'by', $4::text, 'reason', $5::text)
    from clock
    where lane_id = $1::text::bigint and position = $2::text::bigint and (next_attempt_at > clock.now or exists (
      select from outages where subscriber = $9::text and recovered_at is null
    ))
    returning lane_id
  ),
  probing as (
    update outages set next_probe_at = least(next_probe_at, clock.now) from clock, retried
    where subscriber = $9::text and recovered_at is null
  ),
  lane as (
    update lanes set due_at = least(due_at, clock.now) from clock, retried where id = $3::text::bigint
  )
  insert into operator_actions (id, at, operator, action, topic, subscriber, delivery_id, reason, incident_id)
  select $7::uuid, clock.now, $4::text, 'retry', $8::text, $9::text, $1::text || '-' || $2::text, $5::text, $10::uuid
  from clock, retried
  returning id`;

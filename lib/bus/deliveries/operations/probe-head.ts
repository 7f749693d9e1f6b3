import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { NotActedOn, onFirstOfLane } from './first-of-lane.ts';
import type { ActedOn } from './first-of-lane.ts';

/**
 * Makes one attempt of the delivery that holds a lane due now, which costs nothing, and records the operator. If it fails,
 * the number of attempts and the time of the next one stay as they are. The last entry of the delivery's log says so to the
 * relay, so what another operator does before the attempt takes the place of the probe.
 *
 * @param now overrides the database's clock in tests.
 * @throws NotActedOn also where the subscriber is paused, or is in an outage, which has a probe of its own (`probe.ts`).
 */
export async function probeHead(
  db: Database,
  asked: {
    readonly deliveryId: string;
    readonly by: string;
    readonly reason?: string | null;
    /** The incident that it is probed for. */
    readonly incidentId?: string | null;
    readonly now?: Date;
  },
): Promise<ActedOn> {
  const { deliveryId, by, reason = null, incidentId = null, now } = asked;
  return await onFirstOfLane(db, deliveryId, async (tx, { id, laneId, topic, subscriber }) => {
    const [held] = await run<{ is_paused: boolean; is_silent: boolean }>(tx, {
      text: HELD,
      values: [topic, subscriber],
    });
    if (held!.is_paused) throw new NotActedOn('paused', `${subscriber} is paused. Resume it first.`);
    if (held!.is_silent)
      throw new NotActedOn(
        'outage',
        `${subscriber} does not answer, and its deliveries wait for that without a cost. Probe ${subscriber} instead.`,
      );
    const probed = await run(tx, {
      text: PROBE_HEAD,
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
    if (probed.length === 0) throw new NotActedOn('not_waiting');
  });
}

const HELD = `
  select exists (select from pauses where subscriber = $2::text and topic in ('', $1::text)) as is_paused,
    exists (select from outages where subscriber = $2::text and recovered_at is null) as is_silent`;

const PROBE_HEAD = `
  with clock as materialized (
    select coalesce($6::text::timestamptz, clock_timestamp()) as now
  ),
  probed as (
    update deliveries set next_attempt_at = clock.now,
      attempt_log = coalesce(attempt_log, '[]') || jsonb_build_object('attempt', 0, 'at', clock.now, 'durationMs', 0,
        'outcome', 'probed', 'by', $4::text, 'reason', $5::text, 'keeps', next_attempt_at)
    from clock
    where lane_id = $1::text::bigint and position = $2::text::bigint and next_attempt_at > clock.now
    returning lane_id
  ),
  lane as (
    update lanes set due_at = least(due_at, clock.now) from clock, probed where id = $3::text::bigint
  )
  insert into operator_actions (id, at, operator, action, topic, subscriber, delivery_id, reason, incident_id)
  select $7::uuid, clock.now, $4::text, 'probe', $8::text, $9::text, $1::text || '-' || $2::text, $5::text, $10::text::uuid
  from clock, probed
  returning id`;

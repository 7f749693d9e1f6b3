import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { errorGroupOf } from '../error-group.ts';
import { onFirstOfLane } from './first-of-lane.ts';
import type { ActedOn } from './first-of-lane.ts';
import { recounted } from './recount.ts';

/** The error of skipped deliveries: an operator's decision, not a failure of the subscriber. */
export const SKIPPED = { kind: 'skipped', message: 'skipped by an operator' } as const;

/**
 * Dead-letters the delivery that holds a lane, so that the lane continues, and records the operator and the reason. The
 * dead letter can be replayed like any other.
 *
 * @param now overrides the database's clock in tests.
 * @throws NotActedOn
 */
export async function skip(
  db: Database,
  asked: {
    readonly deliveryId: string;
    readonly by: string;
    readonly reason: string;
    readonly now?: Date;
  },
): Promise<ActedOn> {
  const { deliveryId, by, reason, now } = asked;
  return await onFirstOfLane(db, deliveryId, async (tx, { id, laneId, eventId, isFailing, ...of }) => {
    // The operator's reason is not part of the error group: each reason would make a group of its own.
    const group = errorGroupOf(of.topic, of.subscriber, SKIPPED.kind, SKIPPED.message);
    await run(tx, {
      text: SKIP,
      values: [
        id.home,
        id.position,
        laneId,
        eventId,
        isFailing ? 1 : 0,
        of.topic,
        of.subscriber,
        by,
        reason,
        now?.toISOString() ?? null,
        uuidv7(),
        group.key,
        group.kind,
        group.message,
      ],
    });
    await run(tx, { text: END_OF_TROUBLE, values: [laneId] });
  });
}

// The lane is locked, and this statement sees it as it is.
const SKIP = `
  with clock as materialized (
    select coalesce($10::text::timestamptz, clock_timestamp()) as now
  ),
  skipped as (
    update deliveries set state = 'dead_lettered', dead_lettered_at = clock.now, next_attempt_at = null,
      error_group = $12::text,
      attempt_log = coalesce(attempt_log, '[]') || jsonb_build_object('attempt', 0, 'at', clock.now, 'durationMs', 0,
        'outcome', 'skipped', 'kind', 'skipped', 'message', $9::text, 'by', $8::text, 'reason', $9::text)
    from clock where lane_id = $1::text::bigint and position = $2::text::bigint
    returning replays
  ),
  -- The relay records the health of subscribers, but does not see a skip.
  health as (
    insert into subscriber_health as known (subscriber, topic, period, starts_at, dead_lettered, replays_dead_lettered)
    select $7::text, period.topic, period.name, period.starts_at, (replays = 0)::int, (replays > 0)::int
    from clock, skipped, lateral (
      values ('', 'hour', date_trunc('hour', clock.now, 'UTC')), ('', 'total', 'epoch'),
        ($6::text, 'hour', date_trunc('hour', clock.now, 'UTC'))
    ) as period (topic, name, starts_at)
    order by period.topic, period.name
    on conflict (subscriber, topic, period, starts_at) do update set
      dead_lettered = known.dead_lettered + excluded.dead_lettered,
      replays_dead_lettered = known.replays_dead_lettered + excluded.replays_dead_lettered
  ),
  lane as (
    -- In a shared lane, other keys may have earlier deliveries.
    update lanes set head = case when slot is null or home_id is not null then $2::text::bigint else head end,
      tail = greatest(tail, $2::text::bigint), waits_for_version = null,
      due_at = case when slot is not null or tail > $2::text::bigint then clock.now end
    from clock where id = $3::text::bigint
  ),
  changed as materialized (
    select $4::text::uuid as event_id, $6::text as topic, $7::text as subscriber, null::text as error_group, -1 as open,
      -$5::int as failing, 1 as dead
  ),${recounted('(select now from clock)')},
  grouped as (
    insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
    select $12::text, $6::text, $7::text, $13::text, $14::text, 1 where (select count(done) from counted) >= 0
    on conflict (key) do update set dead_lettered = known.dead_lettered + 1
  )
  insert into operator_actions (id, at, operator, action, topic, subscriber, delivery_id, reason)
  select $11::uuid, clock.now, $8::text, 'skip', $6::text, $7::text, $1::text || '-' || $2::text, $9::text from clock`;

const END_OF_TROUBLE = `
  delete from lanes where id = $1::text::bigint and home_id is not null and not exists (
    select from deliveries where lane_id = home_id and lane_key = held_key and state in ('pending', 'failing')
  )`;

import type { Database } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { errorGroupOf } from '../error-group.ts';
import { recounted } from '../recount.ts';
import { acting, onFirstOfLane, withAction } from './first-of-lane.ts';
import type { ActedOn, Asked } from './first-of-lane.ts';

/** The error of skipped deliveries: an operator's decision, not a failure of the subscriber. */
export const SKIPPED = { kind: 'skipped', message: 'skipped by an operator' } as const;

/**
 * Dead-letters the delivery that holds a lane, so that the lane continues, and records the operator and the reason. The
 * dead letter can be replayed like any other.
 *
 * @throws NotActedOn
 */
export async function skip(db: Database, asked: Asked & { readonly reason: string }): Promise<ActedOn> {
  return await onFirstOfLane(db, asked, async (tx, { topic, subscriber, values, ...found }) => {
    // The operator's reason is not part of the error group: each reason would make a group of its own.
    const { key, kind, message } = errorGroupOf(topic, subscriber, SKIPPED.kind, SKIPPED.message);
    const skipped = [found.event_id, found.attempts > 0 ? 1 : 0, key, kind, message];
    await run(tx, { text: SKIP, values: [...values, ...skipped] });
    await run(tx, { text: END_OF_TROUBLE, values: [found.lane_id] });
  });
}

// The lane is locked, and this statement sees it as it is.
const SKIP = acting(
  'skip',
  `
  acted as (
    update deliveries set state = 'dead_lettered', dead_lettered_at = clock.now, next_attempt_at = null,
      error_group = $13::text, attempt_log = ${withAction('skipped', `, 'kind', 'skipped', 'message', $7::text`)}
    from clock where lane_id = $1::text::bigint and position = $2::text::bigint
    returning replays
  ),
  -- A replay by an older release leaves the halt, which would count again.
  halt as (
    delete from halts where lane_id = $1::text::bigint and position = $2::text::bigint
  ),
  -- The relay records the health of subscribers, but does not see a skip.
  health as (
    insert into subscriber_health as known (subscriber, topic, period, starts_at, dead_lettered, replays_dead_lettered)
    select $5::text, period.topic, period.name, period.starts_at, (replays = 0)::int, (replays > 0)::int
    from clock, acted, lateral (
      values ('', 'hour', date_trunc('hour', clock.now, 'UTC')), ('', 'total', 'epoch'),
        ($4::text, 'hour', date_trunc('hour', clock.now, 'UTC'))
    ) as period (topic, name, starts_at)
    order by period.topic, period.name
    on conflict (subscriber, topic, period, starts_at) do update set
      dead_lettered = known.dead_lettered + excluded.dead_lettered,
      replays_dead_lettered = known.replays_dead_lettered + excluded.replays_dead_lettered
  ),
  lane as (
    -- In a shared lane, other keys may have earlier deliveries. A backfill may write some that come before this one.
    update lanes set head = case when (slot is null or home_id is not null) and not exists (
        select from backfills where topic = $4::text and subscriber = $5::text and ended_at is null
      ) then $2::text::bigint else head end,
      tail = greatest(tail, $2::text::bigint), waits_for_version = null,
      due_at = case when slot is not null or tail > $2::text::bigint then clock.now end
    from clock where id = $3::text::bigint
  ),
  changed as materialized (
    select $11::text::uuid as event_id, $4::text as topic, $5::text as subscriber, $13::text as error_group, -1 as open,
      -$12::int as failing, 1 as dead
  ),${recounted('(select now from clock)')},
  grouped as (
    insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
    select $13::text, $4::text, $5::text, $14::text, $15::text, 1 from counted where not exists (select from changed_group)
    on conflict (key) do update set dead_lettered = known.dead_lettered + 1
  )`,
);

const END_OF_TROUBLE = `
  delete from lanes where id = $1::text::bigint and home_id is not null and not exists (
    select from deliveries where lane_id = home_id and lane_key = held_key and state in ('pending', 'failing')
  ) and not exists (
    -- The shared lane knows nothing of a halt: only a lane of the key waits behind it.
    select from halts where halts.lane_id = home_id and halts.lane_key = held_key
  )`;

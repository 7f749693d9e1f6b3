import { v7 as uuidv7 } from 'uuid';

import { WATCH_LOCK } from '../../bus/deliveries/locks.ts';
import { ABSENT_KINDS } from '../../bus/deliveries/outage.ts';
import type { Database } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';
import { findFailures } from './failures.ts';

/** An incident that comes back within this time is opened again: a flapping subscriber is one story. */
const REOPENS_MS = 15 * MINUTE;

/**
 * Brings `incidents` in line with what the lanes and the error groups say.
 *
 * The cron and every page of incidents call it. One process at a time does, the others return at once. Calling it again
 * changes nothing, and counts no revision, until something happens. Its cost grows with what fails and with the number of
 * error groups, not with the number of deliveries or dead letters.
 *
 * @param now overrides the database's clock in tests.
 * @throws the driver's error; nothing has changed then.
 */
export async function watchIncidents(db: Database, now?: Date): Promise<void> {
  await db.transaction(async (tx) => {
    const [lock] = await run<{ is_held: boolean }>(tx, { text: LOCK, values: [] });
    if (!lock!.is_held) return;
    const failures = await findFailures(tx, now);
    const withIds = failures.map((failure) => ({ id: uuidv7(), ...failure }));
    await run(tx, {
      text: APPLY,
      values: [JSON.stringify(withIds), now?.toISOString() ?? null, REOPENS_MS, JSON.stringify(ABSENT_KINDS)],
    });
  });
}

/** How long each of its statements may take. */
const LIMIT_MS = 10 * SECOND;

// In a statement of its own, so that the snapshot of the next one is no older than the lock. The planner cannot know how few
// lanes fail: it would read and sort all of them by a bitmap, and compile for a quarter of a second what runs for less.
const LOCK = `
  select pg_try_advisory_xact_lock(${WATCH_LOCK}, 0) as is_held,
    set_config('statement_timeout', '${LIMIT_MS}ms', true) as limited,
    set_config('enable_bitmapscan', 'off', true) as ordered, set_config('jit', 'off', true) as interpreted`;

// What is neither blocked nor dead any more is closed, unless its replay is still under way: then it is owed.
const APPLY = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  failure as materialized (
    select *, case when lanes > 0 then 'happening' else 'owed' end as state
    from jsonb_to_recordset($1::text::jsonb) as failure(id uuid, topic text, subscriber text, kind text, message text,
      lanes int, halted int, waiting bigint, dead bigint, since timestamptz)
  ),
  open_incident as materialized (
    select * from incidents where closed_at is null
  ),
  compared as materialized (
    select open_incident.id, open_incident.state as was, failure.message, failure.since,
      -- Its lanes are the outage's now, which is reported once.
      open_incident.state = 'happening' and failure.state is distinct from 'happening' and open_incident.topic <> ''
        and $4::text::jsonb ? open_incident.kind and exists (
          select from failure as outage where outage.topic = '' and outage.subscriber = open_incident.subscriber
        ) as is_absorbed,
      coalesce(lanes, 0) as lanes, coalesce(halted, 0) as halted, coalesce(failure.waiting, 0) as waiting, coalesce(dead, 0) as dead,
      case when failure.state is not null then failure.state
        when exists (
          select from backlog
          where (backlog.topic, backlog.subscriber) = (open_incident.topic, open_incident.subscriber)
          having sum(pending) + sum(failing) > 0
        ) and exists (
          select from replays join replay_instants on replay_id = replays.id join deliveries on replayed_at = replay_instants.at
            join lanes on lanes.id = lane_id
          where requested_at >= open_incident.opened_at and deliveries.state in ('pending', 'failing')
            and (lanes.topic, lanes.subscriber) = (open_incident.topic, open_incident.subscriber)
        ) then 'owed'
        else 'closed' end as state
    from open_incident left join failure using (topic, subscriber, kind)
  ),
  changed as (
    update incidents set state = compared.state, message = coalesce(compared.message, incidents.message),
      opened_at = least(opened_at, since), blocked_lanes = lanes, halted_lanes = halted, waiting = compared.waiting, owed = dead,
      revision = revision + (compared.state <> was and not is_absorbed)::int,
      change = case when compared.state = was or is_absorbed then change when compared.state = 'closed' then 'closed' else 'changed' end,
      changed_at = case when compared.state = was then changed_at else clock.now end,
      closed_at = case when compared.state = 'closed' then clock.now end,
      -- Whoever acknowledged the dead letters has not seen that lanes are blocked again.
      acknowledged_at = case when compared.state <> 'happening' or was = 'happening' then acknowledged_at end,
      acknowledged_by = case when compared.state <> 'happening' or was = 'happening' then acknowledged_by end,
      acknowledged_note = case when compared.state <> 'happening' or was = 'happening' then acknowledged_note end
    from clock, compared
    where incidents.id = compared.id and (compared.state, coalesce(compared.message, incidents.message), lanes,
      halted, compared.waiting, dead)
      is distinct from (was, incidents.message, blocked_lanes, halted_lanes, incidents.waiting, owed)
  ),
  fresh as materialized (
    select failure.*, (
      select incidents.id from incidents
      where (incidents.topic, incidents.subscriber, incidents.kind) = (failure.topic, failure.subscriber, failure.kind)
        and closed_at > clock.now - $3::float8 * interval '1 millisecond'
      order by closed_at desc limit 1
    ) as earlier
    from clock, failure left join open_incident using (topic, subscriber, kind)
    where open_incident.id is null
  ),
  reopened as (
    update incidents set state = fresh.state, message = fresh.message, blocked_lanes = lanes,
      halted_lanes = halted, waiting = fresh.waiting,
      owed = dead, revision = revision + 1, change = 'opened', changed_at = clock.now, closed_at = null
    from clock, fresh where incidents.id = fresh.earlier
  )
  insert into incidents (id, topic, subscriber, kind, message, state, change, opened_at, changed_at, blocked_lanes,
    halted_lanes, waiting, owed)
  select id, topic, subscriber, kind, message, state, 'opened', least(since, clock.now), clock.now, lanes, halted,
    waiting, dead
  from clock, fresh where earlier is null`;

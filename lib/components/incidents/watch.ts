import { v7 as uuidv7 } from 'uuid';

import { WATCH_LOCK } from '../../bus/deliveries/locks.ts';
import { ABSENT_KINDS } from '../../bus/deliveries/outage.ts';
import type { Database } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';
import { findFailures } from './failures.ts';
import { isReplayOf } from './replay-of.ts';

/** An incident that comes back within this time is opened again: a flapping subscriber is one story. */
const REOPENS_MS = 15 * MINUTE;

/**
 * Brings `incidents` in line with what the exceptions and the error groups say.
 *
 * The cron and every page of incidents call it. One process at a time does, the others return at once. Calling it again
 * changes nothing, and counts no revision, until something happens. A replica has what the primary's cron brought. Its cost
 * grows with what fails and with the number of error groups, not with that of deliveries; dead letters are counted in an index.
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
// lanes fail: it would read and sort all of them, also for each subscription anew, and compile for a quarter of a second
// what runs for less.
const LOCK = `
  select not current_setting('transaction_read_only')::boolean and pg_try_advisory_xact_lock(${WATCH_LOCK}, 0) as is_held,
    set_config('statement_timeout', '${LIMIT_MS}ms', true) as limited,
    set_config('enable_bitmapscan', 'off', true) as ordered, set_config('enable_sort', 'off', true) as unsorted,
    set_config('jit', 'off', true) as interpreted`;

// What is neither blocked nor dead any more is closed, unless its replay is still under way: then it is owed.
const APPLY = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  failure as materialized (
    -- What has neither lanes nor anything to settle goes on outside of the bus: chat fails, a budget comes to its end. What
    -- lingers has neither any more, and opens nothing.
    select *, case when lanes > 0 or subscriber = '' and dead = 0 then 'happening'
      when dead > 0 or lingers is not true then 'owed' end as state, "group" as error_group
    from jsonb_to_recordset($1::text::jsonb) as failure(id uuid, topic text, subscriber text, kind text, "group" text,
      message text, lanes int, halted int, waiting bigint, dead bigint, since timestamptz, "blockedSince" timestamptz,
      lingers boolean)
  ),
  stored as materialized (
    select * from incidents where closed_at is null
  ),
  -- An incident of an older release is of all errors of its kind. It is that of the oldest of them from here on; the others
  -- go on in incidents of their own, told and acknowledged as it was.
  adopting as materialized (
    select distinct on (stored.id) stored.id, failure.error_group
    from stored join failure using (topic, subscriber, kind)
    where stored.error_group = '' and failure.error_group <> '' and failure.state is not null and not exists (
      select from stored as other
      where (other.topic, other.subscriber, other.error_group) = (failure.topic, failure.subscriber, failure.error_group)
    )
    order by stored.id, failure.since
  ),
  known as materialized (
    select stored.id, topic, subscriber, kind, coalesce(adopting.error_group, stored.error_group) as error_group, state,
      opened_at, coalesce(last_opened_at, opened_at) as last_began, acknowledged_at, acknowledged_by, acknowledged_note,
      adopting.id is not null as is_adopted
    from stored left join adopting using (id)
  ),
  -- Whoever did not answer and is in an outage now: it goes on as that, and the oldest incident with it.
  turning as materialized (
    select distinct on (outage.subscriber) known.id, outage.kind
    from known join failure as outage on outage.subscriber = known.subscriber and outage.topic = ''
    where known.subscriber <> '' and known.state = 'happening' and $4::text::jsonb ? known.kind
      and not exists (
        select from failure as own
        where (own.topic, own.subscriber, own.kind, own.error_group)
          = (known.topic, known.subscriber, known.kind, known.error_group)
      )
      and not exists (
        select from known as other
        where (other.topic, other.subscriber, other.kind) = (outage.topic, outage.subscriber, outage.kind)
      )
    order by outage.subscriber, known.topic, opened_at
  ),
  open_incident as materialized (
    select known.id, state, opened_at, subscriber, last_began, is_adopted, turning.id is not null as is_turned,
      case when turning.id is null then topic else '' end as topic, coalesce(turning.kind, known.kind) as kind,
      case when turning.id is null then error_group else '' end as error_group,
      turning.id is not null and topic <> '' as is_news
    from known left join turning using (id)
  ),
  compared as materialized (
    select open_incident.id, open_incident.state as was, failure.message, failure.since, open_incident.topic,
      open_incident.kind, open_incident.error_group, is_turned or is_adopted as is_renamed, is_news,
      -- It was over for a while: it had something to settle only, or a delivery came between.
      failure.state is not distinct from 'happening' and not is_turned and (open_incident.state <> 'happening' or coalesce((
        select max(last_delivered_at) from lane_outcomes as counted
        where counted.topic = open_incident.topic and counted.subscriber = open_incident.subscriber
      ) between last_began and "blockedSince", false)) as is_back, "blockedSince" as blocked_since,
      -- Its lanes are the outage's now, which is reported once; or those of another error of its kind, as before.
      open_incident.state = 'happening' and failure.state is not distinct from 'owed' and open_incident.topic <> ''
        and (is_adopted or $4::text::jsonb ? open_incident.kind and exists (
          select from failure as outage where outage.topic = '' and outage.subscriber = open_incident.subscriber
        )) as is_absorbed,
      coalesce(lanes, 0) as lanes, coalesce(halted, 0) as halted, coalesce(failure.waiting, 0) as waiting, coalesce(dead, 0) as dead,
      case when failure.state = 'happening' or lingers and open_incident.state = 'happening' then 'happening'
        when failure.state is not null then failure.state
        when exists (
          select from replays join replay_instants on replay_id = replays.id join exceptions on replayed_at = replay_instants.at
            join lanes on lanes.id = lane
          where requested_at >= open_incident.opened_at and exceptions.state in ('pending', 'failing')
            and (lanes.topic, lanes.subscriber) = (open_incident.topic, open_incident.subscriber)
            and ${isReplayOf('open_incident')}
        ) then 'owed'
        else 'closed' end as state
    from open_incident left join failure using (topic, subscriber, kind, error_group)
  ),
  changed as (
    update incidents set topic = compared.topic, kind = compared.kind, error_group = compared.error_group,
      times = times + is_back::int, last_opened_at = case when is_back then blocked_since else last_opened_at end,
      state = compared.state, message = coalesce(compared.message, incidents.message),
      opened_at = least(opened_at, since), blocked_lanes = lanes, halted_lanes = halted, waiting = compared.waiting, owed = dead,
      revision = revision + (compared.state <> was and not is_absorbed or is_news)::int,
      change = case when is_news then 'changed' when compared.state = was or is_absorbed then change
        when compared.state = 'closed' then 'closed' else 'changed' end,
      changed_at = case when compared.state = was and not is_news then changed_at else clock.now end,
      closed_at = case when compared.state = 'closed' then clock.now end,
      -- Whoever acknowledged the dead letters has not seen that lanes are blocked again.
      acknowledged_at = case when compared.state <> 'happening' or was = 'happening' then acknowledged_at end,
      acknowledged_by = case when compared.state <> 'happening' or was = 'happening' then acknowledged_by end,
      acknowledged_note = case when compared.state <> 'happening' or was = 'happening' then acknowledged_note end
    from clock, compared
    where incidents.id = compared.id and (is_renamed or is_back or (compared.state, coalesce(compared.message, incidents.message), lanes,
      halted, compared.waiting, dead)
      is distinct from (was, incidents.message, blocked_lanes, halted_lanes, incidents.waiting, owed))
  ),
  fresh as materialized (
    select failure.*, (
      select incidents.id from incidents
      where (incidents.topic, incidents.subscriber, incidents.kind, incidents.error_group)
          = (failure.topic, failure.subscriber, failure.kind, failure.error_group)
        and closed_at > clock.now - $3::float8 * interval '1 millisecond'
        and closed_at <= clock.now + interval '10 seconds'
      order by closed_at desc limit 1
    ) as earlier
    from clock, failure left join open_incident using (topic, subscriber, kind, error_group)
    where open_incident.id is null and failure.state is not null
  ),
  reopened as (
    update incidents set times = times + 1, last_opened_at = coalesce(fresh."blockedSince", clock.now),
      state = fresh.state, message = fresh.message, blocked_lanes = lanes,
      halted_lanes = halted, waiting = fresh.waiting,
      owed = dead, revision = revision + 1, change = 'opened', changed_at = clock.now, closed_at = null,
      -- Whoever acknowledged it has seen it end.
      acknowledged_at = null, acknowledged_by = null, acknowledged_note = null
    from clock, fresh where incidents.id = fresh.earlier
  ),
  split as materialized (
    select fresh.id, known.id as from_id, acknowledged_at, acknowledged_by, acknowledged_note
    from fresh join known using (topic, subscriber, kind) where known.is_adopted and earlier is null
  ),
  told as (
    insert into alerts (incident_id, revision, channel, sent_at)
    select split.id, 1, channel, max(sent_at) from split join alerts on incident_id = from_id group by split.id, channel
  )
  insert into incidents (id, topic, subscriber, kind, error_group, message, state, change, opened_at, changed_at, blocked_lanes,
    halted_lanes, waiting, owed, acknowledged_at, acknowledged_by, acknowledged_note)
  select fresh.id, fresh.topic, fresh.subscriber, fresh.kind, fresh.error_group, fresh.message, fresh.state, 'opened',
    least(since, clock.now), clock.now, lanes, halted, fresh.waiting, dead, acknowledged_at, acknowledged_by, acknowledged_note
  from clock, fresh left join split using (id) where earlier is null`;

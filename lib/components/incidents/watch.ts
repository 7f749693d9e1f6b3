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
 * changes nothing, and counts no revision, until something happens. A replica has what the primary's cron brought. Its cost
 * grows with what fails and with the number of error groups, not with the number of deliveries or dead letters.
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

const instant = (sql: string) => `to_char(${sql} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** The ways in which an incident has failed, with the one that it turns into. Its beginning and its last ways tell enough. */
const courseInto = (of: string) => `(
        case when ${of}.course = '[]' then jsonb_build_array(jsonb_build_object('kind', ${of}.kind, 'isOutage',
            ${of}.topic = '', 'at', ${instant(`${of}.opened_at`)}))
          when jsonb_array_length(${of}.course) >= 8 then ${of}.course - 1 else ${of}.course end
      ) || jsonb_build_object('kind', into_kind, 'isOutage', into_topic = '', 'at', ${instant('clock.now')})`;

// What is neither blocked nor dead any more is closed, unless its replay is still under way: then it is owed.
const APPLY = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  failure as materialized (
    -- What has neither lanes nor anything to settle goes on outside of the bus: chat fails, a budget comes to its end.
    select *, case when lanes > 0 or subscriber = '' and dead = 0 then 'happening' else 'owed' end as state
    from jsonb_to_recordset($1::text::jsonb) as failure(id uuid, topic text, subscriber text, kind text, message text,
      lanes int, halted int, waiting bigint, dead bigint, since timestamptz,
      "blockedSince" timestamptz)
  ),
  known as materialized (
    select * from incidents where closed_at is null
  ),
  -- What fails in another way now, or is part of an outage or of none any more, goes on: the oldest of a way turns into it.
  turning as materialized (
    select distinct on (subscriber, into_topic, into_kind) * from (
      select distinct on (known.id) known.id, known.opened_at, known.subscriber, next.topic as into_topic,
        next.kind as into_kind
      from known join failure as next on next.subscriber = known.subscriber
          and (next.topic = known.topic or '' in (next.topic, known.topic))
        left join failure as own on (own.topic, own.subscriber, own.kind) = (known.topic, known.subscriber, known.kind)
        left join known as other on (other.topic, other.subscriber, other.kind) = (next.topic, next.subscriber, next.kind)
      where known.state = 'happening' and known.subscriber <> '' and own.id is null and next.state = 'happening'
        and other.id is null
      order by known.id, next.topic = known.topic desc, next.lanes desc
    ) as candidate
    order by subscriber, into_topic, into_kind, opened_at
  ),
  -- One that leaves dead letters stays with them, and what its lanes do now goes on in an incident of its own.
  continuing as materialized (
    select distinct on (into_id) * from (
      select distinct on (known.id) known.*, next.id as into_id, next.topic as into_topic, next.kind as into_kind
      from known
        join failure as own on (own.topic, own.subscriber, own.kind) = (known.topic, known.subscriber, known.kind)
        join failure as next on next.subscriber = known.subscriber and next.topic in (known.topic, '')
        left join known as other on (other.topic, other.subscriber, other.kind) = (next.topic, next.subscriber, next.kind)
        left join turning on (turning.subscriber, into_topic, into_kind) = (next.subscriber, next.topic, next.kind)
      where known.state = 'happening' and known.subscriber <> '' and own.state = 'owed' and next.state = 'happening'
        and other.id is null and turning.id is null
      order by known.id, next.topic = known.topic desc, next.lanes desc
    ) as candidate
    order by into_id, opened_at
  ),
  open_incident as materialized (
    select known.id, state, opened_at, subscriber, coalesce(into_topic, topic) as topic, coalesce(into_kind, kind) as kind,
      turning.id is not null as is_turned, course @> jsonb_build_array(jsonb_build_object('kind', into_kind)) as is_known_way,
      coalesce(last_opened_at, known.opened_at) as last_began,
      case when turning.id is null then course else ${courseInto('known')} end as course
    from clock, known left join turning using (id, opened_at, subscriber)
  ),
  compared as materialized (
    select open_incident.id, open_incident.state as was, failure.message, failure.since, open_incident.topic,
      open_incident.kind, open_incident.course, is_turned, is_turned and not is_known_way as is_new_way,
      -- It was over for a while: it had something to settle only, or a delivery came between.
      failure.state is not distinct from 'happening' and not is_turned and (open_incident.state <> 'happening' or exists (
        select from backlog where (backlog.topic, backlog.subscriber) = (open_incident.topic, open_incident.subscriber)
        having max(last_delivered_at) between last_began and "blockedSince"
      )) as is_back, "blockedSince" as blocked_since,
      -- Its lanes are the outage's now, which is reported once.
      open_incident.state = 'happening' and failure.state is distinct from 'happening' and open_incident.topic <> ''
        and $4::text::jsonb ? open_incident.kind and exists (
          select from failure as outage where outage.topic = '' and outage.subscriber = open_incident.subscriber
        ) or exists (select from continuing where continuing.id = open_incident.id) as is_absorbed,
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
    update incidents set topic = compared.topic, kind = compared.kind, course = compared.course,
      times = times + is_back::int, last_opened_at = case when is_back then blocked_since else last_opened_at end,
      state = compared.state, message = coalesce(compared.message, incidents.message),
      opened_at = least(opened_at, since), blocked_lanes = lanes, halted_lanes = halted, waiting = compared.waiting, owed = dead,
      revision = revision + (compared.state <> was and not is_absorbed or is_new_way)::int,
      change = case when is_new_way then 'changed' when compared.state = was or is_absorbed then change when compared.state = 'closed' then 'closed' else 'changed' end,
      changed_at = case when compared.state = was and not is_new_way then changed_at else clock.now end,
      closed_at = case when compared.state = 'closed' then clock.now end,
      -- Whoever acknowledged the dead letters has not seen that lanes are blocked again.
      acknowledged_at = case when compared.state <> 'happening' or was = 'happening' then acknowledged_at end,
      acknowledged_by = case when compared.state <> 'happening' or was = 'happening' then acknowledged_by end,
      acknowledged_note = case when compared.state <> 'happening' or was = 'happening' then acknowledged_note end
    from clock, compared
    where incidents.id = compared.id and (is_turned or is_back or (compared.state, coalesce(compared.message, incidents.message), lanes,
      halted, compared.waiting, dead)
      is distinct from (was, incidents.message, blocked_lanes, halted_lanes, incidents.waiting, owed))
  ),
  fresh as materialized (
    select failure.*, (
      select incidents.id from incidents
      where (incidents.topic, incidents.subscriber, incidents.kind) = (failure.topic, failure.subscriber, failure.kind)
        and closed_at > clock.now - $3::float8 * interval '1 millisecond'
        and closed_at <= clock.now + interval '10 seconds'
      order by closed_at desc limit 1
    ) as earlier
    from clock, failure left join open_incident using (topic, subscriber, kind)
    where open_incident.id is null
  ),
  reopened as (
    update incidents set times = times + 1, last_opened_at = coalesce(fresh."blockedSince", clock.now),
      state = fresh.state, message = fresh.message, blocked_lanes = lanes,
      halted_lanes = halted, waiting = fresh.waiting,
      owed = dead, revision = revision + 1, change = 'opened', changed_at = clock.now, closed_at = null
    from clock, fresh where incidents.id = fresh.earlier
  )
  insert into incidents (id, topic, subscriber, kind, message, state, change, opened_at, changed_at, blocked_lanes,
    halted_lanes, waiting, owed, course, acknowledged_at, acknowledged_by, acknowledged_note)
  select fresh.id, fresh.topic, fresh.subscriber, fresh.kind, fresh.message, fresh.state,
    case when before.id is null then 'opened' else 'changed' end, least(since, clock.now, before.opened_at), clock.now,
    lanes, halted, fresh.waiting, dead, case when before.id is null then '[]' else ${courseInto('before')} end,
    before.acknowledged_at, before.acknowledged_by, before.acknowledged_note
  from clock, fresh left join continuing as before on before.into_id = fresh.id where earlier is null`;

-- How far a lane may be delivered: up to the front of a backfill that is under way in its subscription, or to the first
-- dead letter that halts it (of a shared lane: that halts this key). Null where nothing bounds it. Most of the time nothing
-- bounds any lane: the callers look for that first.
create or replace function postbud_front_1(of_topic text, of_subscriber text, home bigint, of_key text) returns bigint
language sql stable as $$
  select least((
    select front from backfills where topic = of_topic and subscriber = of_subscriber and ended_at is null
  ), (
    select min(halts.position) from halts join deliveries using (lane_id, position)
    where halts.lane_id = home and halts.lane_key is not distinct from of_key
      and deliveries.state = 'dead_lettered' and deliveries.dismissed_at is null
  ))
$$;--> statement-breakpoint
-- What becomes of a lane once its outcomes are recorded. Times are epoch milliseconds of the database's clock.
create type postbud_outcome_2 as (
  id bigint,
  -- The lane that the deliveries stand in: another one only for the lane of a key in trouble.
  home bigint,
  token uuid,
  -- The lane's head when the relay last read or wrote it, and its new one.
  head_was bigint,
  head_is bigint,
  retry_at float8,
  -- Until when the relay keeps the lane; null to let it go.
  keep_until float8,
  careful_to bigint,
  waits_for_version smallint,
  -- Whether the subscription waits while its subscriber does not answer.
  waits boolean
);--> statement-breakpoint
-- Notes which subscribers answer, of those whose subscriptions wait while nobody is there. An attempt that failed as if
-- nobody was there counts for its lane, or for its key in a shared one. Three of them, or one that failed three times, in
-- the same way and without an answer between them, open an outage. Any answer ends it, also an error.
--
-- `unfinished` says of each attempt: `presence` is `absent`, `present` or null (neither: the relay died, or the subscriber
-- asked to wait), and `is_probe`. The lanes must be locked. One settlement at a time does this, so that two that count
-- lanes of one subscriber do not deadlock.
create or replace function postbud_record_presence_1(
  outcomes postbud_outcome_2[], held bigint[], delivered_lanes bigint[], unfinished jsonb, at timestamptz
) returns void language plpgsql as $$
declare
  waits constant interval[] := '{1 minute,5 minutes,30 minutes,6 hours}';
  answering text[];
  has_absent constant boolean := exists (
    select from jsonb_to_recordset(unfinished) as attempt(presence text) where presence = 'absent'
  );
begin
  if not has_absent and not exists (select from absences) and not exists (select from outages where recovered_at is null) then
    return;
  end if;
  perform pg_advisory_xact_lock(36961, 0);
  if exists (select from absences) or exists (select from outages where recovered_at is null) then
    select array_agg(distinct subscriber order by subscriber) into answering
    from unnest(outcomes) as outcome join lanes on lanes.id = outcome.id
    where outcome.waits and outcome.id = any (held) and (
      outcome.id = any (delivered_lanes) or exists (
        select from jsonb_to_recordset(unfinished) as attempt(lane bigint, presence text)
        where attempt.lane = outcome.id and presence = 'present'
      )
    );
    if answering is not null then
      delete from absences where subscriber = any (answering);
      update outages set recovered_at = at where subscriber = any (answering) and recovered_at is null;
    end if;
  end if;
  if has_absent then
    with absent as materialized (
      select subscriber, attempt.entry ->> 'kind' as kind, attempt.entry ->> 'message' as message, attempt.home,
        coalesce(lane_key, '') as lane_key, coalesce(is_probe, false) as is_probe
      from jsonb_to_recordset(unfinished) as attempt(lane bigint, home bigint, position bigint, presence text,
          is_probe boolean, entry jsonb)
        join lanes on lanes.id = attempt.lane
        join deliveries on deliveries.lane_id = attempt.home and deliveries.position = attempt.position
      where presence = 'absent' and attempt.lane = any (held) and (answering is null or not subscriber = any (answering))
    ),
    -- Each probe waits longer for the next one, as the retries of a delivery do.
    probed as (
      update outages set probes = probes + 1, next_probe_at = at + waits[least(probes + 2, cardinality(waits))]
      where recovered_at is null and subscriber in (select subscriber from absent where is_probe)
    ),
    counted as (
      insert into absences as known (subscriber, kind, lane_id, lane_key, failures)
      select subscriber, kind, home, lane_key, count(*) from absent
      where not is_probe and not exists (
        select from outages where outages.subscriber = absent.subscriber and recovered_at is null
      )
      group by 1, 2, 3, 4 order by 1, 2, 3, 4
      on conflict (subscriber, kind, lane_id, lane_key) do update set failures = known.failures + excluded.failures
      returning *
    ),
    together as (
      -- The statement does not see its own rows.
      select * from counted
      union all
      select * from absences where subscriber in (select subscriber from counted)
        and (subscriber, kind, lane_id, lane_key) not in (select subscriber, kind, lane_id, lane_key from counted)
    )
    insert into outages (subscriber, kind, message, opened_at, next_probe_at)
    select distinct on (subscriber) subscriber, kind, coalesce((
      select message from absent where absent.subscriber = together.subscriber and absent.kind = together.kind limit 1
    ), ''), at, at + waits[1]
    from together group by subscriber, kind having count(*) >= 3 or max(failures) >= 3
    order by subscriber, count(*) desc
    on conflict (subscriber) do update set kind = excluded.kind, message = excluded.message,
      opened_at = excluded.opened_at, probes = 0, probed_at = null, next_probe_at = excluded.next_probe_at,
      recovered_at = null
    where outages.recovered_at is not null;
    delete from absences using outages
    where outages.subscriber = absences.subscriber and recovered_at is null;
  end if;
end
$$;--> statement-breakpoint
-- Records outcomes and lets the lanes go, or keeps them. A lane whose token is no longer the relay's is passed over with
-- all its outcomes; doing it twice changes nothing the second time. The lanes and their homes must be locked.
--
-- `delivered_*`: deliveries of a lane with the same times, to the millisecond, are one row with all their positions.
create or replace function postbud_settle_2(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  -- Keys that leave their shared lane: one whose handler takes long, with the lease that it is under; or one that a newer
  -- release is needed for.
  leaving jsonb,
  at timestamptz,
  out held bigint[],
  -- The lanes of the keys that left, by the lane that they left and the key.
  out left_for jsonb,
  out delivered int,
  out failed int,
  out waited int,
  out dead_lettered int,
  out changes postbud_change_1[]
) language plpgsql as $$
declare
  is_all_held boolean;
  is_bounded boolean;
  moved postbud_change_1[];
begin
  select coalesce(array_agg(lanes.id), '{}') into held
  from unnest(outcomes) as outcome join lanes on lanes.id = outcome.id and lanes.lease_token = outcome.token;
  is_all_held := cardinality(held) = cardinality(outcomes);
  delivered := 0;
  failed := 0;
  waited := 0;
  dead_lettered := 0;
  if cardinality(delivered_lanes) > 0 then
    with settled as (
      update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.in_ms,
        attempted_at = to_timestamp(attempt.at_ms / 1000),
        delivered_at = to_timestamp((attempt.at_ms + attempt.in_ms) / 1000), next_attempt_at = null
      from unnest(delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms, delivered_in_ms)
        as attempt(lane, home, positions, at_ms, in_ms)
      where deliveries.lane_id = attempt.home and deliveries.position = any (attempt.positions::bigint[])
        and coalesce(deliveries.state in ('pending', 'failing'), false)
        and (is_all_held or attempt.lane = any (held))
      returning attempt.lane, deliveries.event_id, (deliveries.attempts > 1)::int as was_failing,
        (deliveries.attempts = 1 and replays = 0)::int as first_attempt, deliveries.delivered_at
    ),
    change as (
      select event_id, count(*)::int as open, sum(was_failing)::int as failing from settled group by event_id
    ),
    changed_event as (
      -- In the order of their ids: two relays that settle deliveries of the same events would otherwise wait for each
      -- other in a ring. Locking them first would cost a record in the log for each.
      update events set open = events.open - change.open, failing = events.failing - change.failing
      from (select * from change order by event_id) as change
      where events.id = change.event_id
      returning events.topic, events.state as becomes, postbud_event_state(
        events.open + change.open, events.failing + change.failing, events.dead_lettered) as was
    ),
    lane_change as (
      select lane, count(*)::int as delivered, sum(was_failing)::int as failing,
        sum(first_attempt)::int as first_attempt, max(delivered_at) as last_delivered_at
      from settled group by lane
    )
    select (select sum(lane_change.delivered) from lane_change),
      array(
        select row(topic, subscriber, lane_change.failing - lane_change.delivered, -lane_change.failing, 0,
          lane_change.delivered, first_attempt, 0, last_delivered_at, null)::postbud_change_1
        from lane_change join lanes on lanes.id = lane
      ),
      array(select postbud_event_moved(topic, was, becomes) from changed_event where was <> becomes)
    into delivered, changes, moved;
    delivered := coalesce(delivered, 0);
    changes := changes || moved;
  end if;
  if unfinished is not null then
    declare
      attempts_of postbud_change_1[];
      counts record;
    begin
      with attempt as materialized (
        select * from jsonb_to_recordset(unfinished) as attempt(lane bigint, home bigint, position bigint,
          at timestamptz, duration_ms int, burnt int, next_attempt_at timestamptz, error_group jsonb, entry jsonb,
          halts boolean)
      ),
      settled as (
        update deliveries set attempts = deliveries.attempts + attempt.burnt, attempted_at = attempt.at,
          duration_ms = attempt.duration_ms, next_attempt_at = attempt.next_attempt_at,
          state = case when attempt.next_attempt_at is null then 'dead_lettered'
            when attempt.burnt = 1 then 'failing' else deliveries.state end,
          dead_lettered_at = case when attempt.next_attempt_at is null
            then attempt.at + attempt.duration_ms * interval '1 millisecond' end,
          error_group = attempt.error_group ->> 'key',
          attempt_log = coalesce(deliveries.attempt_log, '[]')
            || (attempt.entry || jsonb_build_object('attempt', deliveries.attempts + 1))
        from attempt
        where deliveries.lane_id = attempt.home and deliveries.position = attempt.position
          and coalesce(deliveries.state in ('pending', 'failing'), false)
          and (is_all_held or attempt.lane = any (held))
        returning attempt.lane, deliveries.position, deliveries.event_id, deliveries.lane_key,
          deliveries.next_attempt_at, attempt.burnt, attempt.error_group,
          attempt.home, attempt.halts, attempt.at,
          (attempt.next_attempt_at is null)::int as dead,
          (deliveries.state = 'failing')::int - (deliveries.attempts > attempt.burnt)::int as failing,
          case when attempt.burnt = 1 then attempt.at + attempt.duration_ms * interval '1 millisecond' end as failed_at
      ),
      change as (
        select event_id, sum(dead)::int as dead, sum(settled.failing)::int as failing from settled group by event_id
      ),
      changed_event as (
        update events set open = events.open - change.dead, failing = events.failing + change.failing,
          dead_lettered = events.dead_lettered + change.dead
        from (select * from change order by event_id) as change
        where events.id = change.event_id
        returning events.topic, events.state as becomes, postbud_event_state(
          events.open + change.dead, events.failing - change.failing, events.dead_lettered - change.dead) as was
      ),
      -- A key that waits leaves its shared lane to the others. Its deliveries stay where they are.
      in_trouble as (
        insert into lanes (topic, subscriber, slot, held_key, home_id, head, tail, needed_version, due_at)
        select home.topic, home.subscriber, home.slot, settled.lane_key, home.id,
          -- Moved back since the claim: a replay may have put back what comes first of this key.
          case when home.head = outcome.head_was then settled.position - (not coalesce(halts, false))::int
            else least(settled.position - 1, home.head) end,
          settled.position, 32767, case when home.head <> outcome.head_was then postbud_settle_2.at
            when halts then 'infinity' else settled.next_attempt_at end
        from settled join lanes as home on home.id = settled.lane
          join unnest(outcomes) as outcome on outcome.id = home.id
        where home.slot is not null and home.home_id is null and (settled.next_attempt_at is not null or halts)
        order by settled.position
        on conflict (topic, subscriber, slot, held_key) where slot is not null
          do update set head = least(lanes.head, excluded.head), due_at = excluded.due_at
      ),
      halted as (
        insert into halts (lane_id, position, lane_key, topic, subscriber, halted_at)
        select home, settled.position, settled.lane_key, topic, subscriber, settled.at
        from settled join lanes on lanes.id = settled.lane where halts
        on conflict (lane_id, position) do update set halted_at = excluded.halted_at
      ),
      dead as (
        insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
        select error_group ->> 'key', topic, subscriber, min(error_group ->> 'kind'), min(error_group ->> 'message'),
          count(*)
        from settled join lanes on lanes.id = settled.lane where settled.dead = 1
        -- After the events, in the order of their keys.
          and (select count(*) from changed_event) >= 0
        group by 1, 2, 3 order by 1
        on conflict (key) do update set dead_lettered = known.dead_lettered + excluded.dead_lettered
      )
      select array(
          select row(topic, subscriber, (-settled.dead - settled.failing), settled.failing, settled.dead, 0, 0,
            settled.burnt, null, failed_at)::postbud_change_1
          from settled join lanes on lanes.id = settled.lane
        ) as changes,
        array(select postbud_event_moved(topic, was, becomes) from changed_event where was <> becomes) as moved,
        (select count(*) from settled where dead = 0 and burnt = 1) as failed,
        (select count(*) from settled where burnt = 0) as waited,
        (select count(*) from settled where dead = 1) as dead_lettered
      into counts;
      changes := changes || counts.changes || counts.moved;
      failed := counts.failed;
      waited := counts.waited;
      dead_lettered := counts.dead_lettered;
    end;
  end if;
  if leaving is not null then
    with gone as (
      insert into lanes (topic, subscriber, slot, held_key, home_id, head, tail, needed_version, waits_for_version,
        held_version, lease_token, due_at)
      select topic, subscriber, slot, key, home.id,
        case when home.head = outcome.head_was then key_leaving.position - 1
          else least(key_leaving.position - 1, home.head) end,
        key_leaving.position, 32767,
        key_leaving.waits_for_version, home.held_version,
        case when key_leaving.keep_until is not null then home.lease_token end,
        coalesce(to_timestamp(key_leaving.keep_until / 1000), at)
      from jsonb_to_recordset(leaving) as key_leaving(lane bigint, key text, position bigint, keep_until float8,
          waits_for_version smallint)
        join lanes as home on home.id = key_leaving.lane
        join unnest(outcomes) as outcome on outcome.id = home.id
      where home.id = any (held)
      on conflict (topic, subscriber, slot, held_key) where slot is not null
        do update set head = least(lanes.head, excluded.head)
      returning id, home_id, held_key
    )
    select json_agg(gone) into left_for from gone;
  end if;
  if exists (select from unnest(outcomes) where waits) then
    perform postbud_record_presence_1(outcomes, held, delivered_lanes, unfinished, at);
  end if;
  is_bounded := exists (select from halts) or exists (select from backfills where ended_at is null);
  update lanes set
    -- Moved back since the claim: a replay put deliveries back, which come first.
    head = case when lanes.head = outcome.head_was then outcome.head_is else lanes.head end,
    tail = greatest(lanes.tail, outcome.head_is),
    careful_to = greatest(lanes.careful_to, outcome.careful_to),
    waits_for_version = case when lanes.head = outcome.head_was then outcome.waits_for_version end,
    needed_version = case when lanes.slot is not null then 32767 end,
    lease_token = case when outcome.keep_until is not null then lanes.lease_token end,
    due_at = case
      when outcome.keep_until is not null then greatest(lanes.due_at, to_timestamp(outcome.keep_until / 1000))
      when lanes.head <> outcome.head_was then at
      when is_bounded and outcome.head_is >= postbud_front_1(
        lanes.topic, lanes.subscriber, coalesce(lanes.home_id, lanes.id), nullif(lanes.held_key, '')) then 'infinity'
      when outcome.retry_at is not null then to_timestamp(outcome.retry_at / 1000)
      when lanes.home_id is null then case when lanes.tail > outcome.head_is then at end
      when exists (
        select from deliveries
        -- The row is compared as the index of keys has it.
        where (lane_id, lane_key, position) > (lanes.home_id, lanes.held_key, outcome.head_is)
          and lane_id = lanes.home_id and lane_key = lanes.held_key
          and coalesce(state in ('pending', 'failing'), false)
      ) then at
    end
  from unnest(outcomes) as outcome
  where lanes.id = outcome.id and lanes.lease_token = outcome.token;
  -- The key is through: what comes for it next goes to its shared lane again.
  if exists (select from unnest(outcomes) where id <> home) then
    delete from lanes where id = any (held) and home_id is not null and due_at is null;
  end if;
end
$$;
--> statement-breakpoint
-- Settles in the transaction of a handler. @returns how many deliveries it recorded as delivered.
create or replace function postbud_settle_alone_2(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  leaving jsonb
) returns int language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  settled record;
begin
  perform from lanes where id = any (array(select id from unnest(outcomes) union select home from unnest(outcomes)))
  order by id for update;
  select * into settled from postbud_settle_2(outcomes, delivered_lanes, delivered_homes, delivered_positions,
    delivered_at_ms, delivered_in_ms, unfinished, leaving, clock_timestamp());
  if cardinality(settled.changes) > 0 then
    perform postbud_count_1(settled.changes, clock_timestamp());
  end if;
  return settled.delivered;
end
$$;

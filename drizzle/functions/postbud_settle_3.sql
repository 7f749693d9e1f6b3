-- Records outcomes and lets the lanes go, or keeps them. A lane whose token is no longer the relay's is passed over with
-- all its outcomes; doing it twice changes nothing the second time. The lanes and their homes must be locked.
--
-- Counters that a row changed by hand contradicts stay where they can be: the doctor finds them, and no lane stops for them.
--
-- `delivered_*`: deliveries of a lane with the same times, to the millisecond, and as many replays, are one row with all
-- their positions. `delivered_in_ms` has the durations of all rows, and then how often those of each had been replayed at
-- their claim, as `replays` of `unfinished` says. A delivery that has been replayed since then has another attempt before it:
-- an earlier call has settled this one. A release that does not say has that go unnoticed.
-- `lane_ids`, `addresses` and `lane_rows` are the locked lanes, and `held` those whose token is still the relay's. With
-- `keeps_more` a lane that has more to deliver is not made due: the caller leases it at once.
create or replace function postbud_settle_3(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  -- Keys that leave their shared lane: one whose handler takes long, with the lease that it is under; or one that a newer
  -- release is needed for.
  leaving jsonb,
  lane_ids bigint[], addresses tid[], lane_rows lanes[], held bigint[],
  is_bounded boolean,
  keeps_more boolean,
  at timestamptz,
  -- The lanes of the keys that left and that the relay keeps, by the lane that they left and the key.
  out left_for jsonb,
  out delivered int,
  out failed int,
  out waited int,
  out dead_lettered int,
  out changes postbud_change_1[],
  -- The lanes that have more to deliver and are not due; and whether others are due by now.
  out more bigint[],
  out makes_due boolean
) language plpgsql as $$
declare
  is_all_held constant boolean := cardinality(held) = cardinality(outcomes);
  stretches constant int := cardinality(delivered_lanes);
  -- What this call has recorded, and no earlier one: the lanes that have delivered, and the attempts that say who is there.
  answering bigint[];
  presences jsonb;
  own lanes;
  -- An earlier call, whose answer was lost, may have settled lanes that are kept: all of them where this call does not record
  -- all that it carries, else those that keys leave. What was replayed since then may have moved a head from where that call
  -- left it to where it was before: it stays there, as where it moved elsewhere. A lane that it let go is not held any more.
  is_repeated boolean;
  unsure bigint[] := '{}';
  has_moved boolean;
  one postbud_outcome_2;
  is_of_key boolean := false;
  is_waiting boolean := false;
  is_kept boolean;
  is_through boolean;
  place int;
  due timestamptz;
  places tid[] := '{}';
  let_go lanes[] := '{}';
  kept bigint[] := '{}';
  keep_to timestamptz;
  kept_until timestamptz;
  -- A run goes by the clock of its claim, which may have stepped back since. No lease is longer; see LONGEST_TIME_LIMIT_MS.
  longest_lease constant timestamptz := at + interval '80 seconds';
begin
  delivered := 0;
  failed := 0;
  waited := 0;
  dead_lettered := 0;
  makes_due := unfinished is not null or leaving is not null;
  if stretches > 0 then
    with settled as (
      update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.in_ms,
        attempted_at = to_timestamp(attempt.at_ms / 1000),
        delivered_at = to_timestamp((attempt.at_ms + attempt.in_ms) / 1000), next_attempt_at = null
      from unnest(delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms, delivered_in_ms[:stretches],
          delivered_in_ms[stretches + 1:])
        as attempt(lane, home, positions, at_ms, in_ms, replays)
      where deliveries.lane_id = attempt.home and deliveries.position = any (attempt.positions::bigint[])
        and coalesce(deliveries.state in ('pending', 'failing'), false)
        and deliveries.replays = coalesce(attempt.replays, deliveries.replays)
        and (is_all_held or attempt.lane = any (held))
      returning attempt.lane, deliveries.event_id, (deliveries.attempts > 1)::int as was_failing,
        (deliveries.attempts = 1 and deliveries.replays = 0)::int as first_attempt, deliveries.delivered_at
    ),
    changed_event as (
      update events set open = greatest(events.open - change.open, 0),
        failing = least(greatest(events.failing - change.failing, 0), greatest(events.open - change.open, 0))
      from (
        -- In the order of their ids: two relays that settle deliveries of the same events would otherwise wait for each
        -- other in a ring. Locking them first would cost a record in the log for each.
        select event_id, count(*)::int as open, sum(was_failing)::int as failing
        from settled group by event_id order by event_id
      ) as change
      where events.id = change.event_id
      returning events.topic, events.state as becomes, postbud_event_state(
        events.open + change.open, events.failing + change.failing, events.dead_lettered) as was
    ),
    lane_change as (
      select lane, count(*)::int as delivered, sum(was_failing)::int as failing, sum(first_attempt)::int as first_attempt,
        max(delivered_at) as last_at
      from settled group by lane
    )
    select coalesce(sum(lane_change.delivered), 0), array_agg(lane),
      array_agg(row(topic, subscriber, lane_change.failing - lane_change.delivered, -lane_change.failing, 0,
        lane_change.delivered, first_attempt, 0, last_at, null)::postbud_change_1)
        || (select array_agg(postbud_event_moved(topic, was, becomes)) from changed_event where was <> becomes)
    into delivered, answering, changes
    from lane_change join unnest(lane_rows) as lanes on lanes.id = lane;
  end if;
  if unfinished is not null then
    if unfinished @? '$[*].error_group.rest' then
      unfinished := postbud_bound_groups_1(unfinished);
    end if;
    with attempt as materialized (
      select attempt.*, lanes.topic, lanes.subscriber
      from jsonb_to_recordset(unfinished) as attempt(lane bigint, home bigint, position bigint,
          replays int, at timestamptz, duration_ms int, burnt int, next_attempt_at timestamptz, error_group jsonb,
          entry jsonb, halts boolean, presence text, is_probe boolean)
        join unnest(lane_rows) as lanes on lanes.id = attempt.lane
      where is_all_held or attempt.lane = any (held)
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
        and deliveries.replays = coalesce(attempt.replays, deliveries.replays)
        -- Where the lane is kept, an earlier settlement of these outcomes may have recorded it, whose answer was lost. Its
        -- key has had a lane of its own since then, and perhaps later attempts.
        and not coalesce(deliveries.attempt_log @> jsonb_build_array(attempt.entry) and (
          (deliveries.attempt_log -> -1) - 'attempt' = attempt.entry
          or exists (select from lanes as left_to where left_to.home_id = attempt.lane and held_key = lane_key)
        ), false)
      returning attempt.*, deliveries.event_id, deliveries.lane_key, (attempt.next_attempt_at is null)::int as dead,
        (deliveries.state = 'failing')::int - (deliveries.attempts > attempt.burnt)::int as failing,
        case when attempt.burnt = 1 then attempt.at + attempt.duration_ms * interval '1 millisecond' end as failed_at
    ),
    changed_event as (
      update events set open = greatest(events.open - change.dead, 0),
        failing = least(greatest(events.failing + change.failing, 0), greatest(events.open - change.dead, 0)),
        dead_lettered = events.dead_lettered + change.dead
      from (
        select event_id, sum(dead)::int as dead, sum(failing)::int as failing from settled group by event_id order by event_id
      ) as change
      where events.id = change.event_id
      returning events.topic, events.state as becomes, postbud_event_state(
        events.open + change.dead, events.failing - change.failing, events.dead_lettered - change.dead) as was
    ),
    -- A key that waits leaves its shared lane to the others. Its deliveries stay where they are.
    in_trouble as (
      insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, due_at)
      -- What may have ended a relay goes on one by one there.
      select home.topic, home.subscriber, home.slot, settled.lane_key, home.id,
        greatest(home.careful_to, outcome.careful_to),
        -- Moved back since the claim: a replay may have put back what comes first of this key.
        case when home.head = outcome.head_was then settled.position - (not coalesce(halts, false))::int
          else least(settled.position - 1, home.head) end,
        settled.position, case when home.head <> outcome.head_was then postbud_settle_3.at
          when halts then 'infinity' else settled.next_attempt_at end
      from settled join unnest(outcomes) as outcome on outcome.id = settled.lane, lateral (
          select * from lanes where lanes.id >= settled.lane and lanes.id <= settled.lane order by lanes.id desc limit 1
        ) as home
      where home.slot is not null and home.home_id is null and (settled.next_attempt_at is not null or halts)
      order by settled.position
      on conflict (home_id, held_key) where home_id is not null
        do update set head = least(lanes.head, excluded.head), careful_to = greatest(lanes.careful_to, excluded.careful_to),
          -- Where another relay holds it, it is due at the end of that lease.
          due_at = case when lanes.lease_token is null then excluded.due_at else lanes.due_at end
    ),
    halted as (
      insert into halts (lane_id, position, lane_key, topic, subscriber, halted_at)
      select home, settled.position, lane_key, topic, subscriber, settled.at from settled where halts
      on conflict (lane_id, position) do update set halted_at = excluded.halted_at
    ),
    dead as (
      insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
      select error_group ->> 'key', topic, subscriber, min(error_group ->> 'kind'), min(error_group ->> 'message'), count(*)
      from settled
      -- After the events, in the order of their keys.
      where settled.dead = 1 and (select count(*) from changed_event) >= 0
      group by 1, 2, 3 order by 1
      on conflict (key) do update set dead_lettered = known.dead_lettered + excluded.dead_lettered
    )
    select changes
        || array_agg(row(topic, subscriber, -dead - failing, failing, dead, 0, 0, burnt, null, failed_at)::postbud_change_1)
        || (select array_agg(postbud_event_moved(topic, was, becomes)) from changed_event where was <> becomes),
      count(*) filter (where dead = 0 and burnt = 1), count(*) filter (where burnt = 0), count(*) filter (where dead = 1),
      jsonb_agg(to_jsonb(settled)) filter (where presence is not null)
    into changes, failed, waited, dead_lettered, presences
    from settled;
  end if;
  if leaving is not null then
    insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, waits_for_version,
      held_version, lease_token, leased_until, due_at)
    select topic, subscriber, slot, key, home.id, greatest(home.careful_to, outcome.careful_to),
      case when home.head = outcome.head_was and outcome.keep_until is null then key_leaving.position - 1
        else least(key_leaving.position - 1, home.head) end,
      key_leaving.position,
      key_leaving.waits_for_version, home.held_version,
      case when key_leaving.keep_until is not null then home.lease_token end,
      case when key_leaving.keep_until is not null then least(to_timestamp(key_leaving.keep_until / 1000), longest_lease) end,
      least(coalesce(to_timestamp(key_leaving.keep_until / 1000), at), longest_lease)
    from jsonb_to_recordset(leaving) as key_leaving(lane bigint, key text, position bigint, keep_until float8,
        waits_for_version smallint)
      join unnest(outcomes) as outcome on outcome.id = key_leaving.lane, lateral (
        select * from lanes
        where lanes.id >= key_leaving.lane and lanes.id <= key_leaving.lane order by lanes.id desc limit 1
      ) as home
    where home.id = any (held)
    on conflict (home_id, held_key) where home_id is not null
      do update set head = least(lanes.head, excluded.head),
        careful_to = greatest(lanes.careful_to, excluded.careful_to);
    -- Also those of an earlier settlement of these outcomes, whose answer was lost: the lanes that they left are held no more.
    select json_agg(json_build_object('id', lanes.id, 'home_id', home_id, 'held_key', held_key)) into left_for
    from unnest(outcomes) as outcome join lanes on home_id = outcome.id and lease_token = outcome.token;
    -- That a key has left does not tell the first call from a later one.
    unsure := array(select lane from jsonb_to_recordset(leaving) as key_leaving(lane bigint));
  end if;
  is_bounded := is_bounded or unfinished is not null and exists (select from halts);
  if makes_due then
    -- As the statements above left them.
    select * into lane_ids, addresses, lane_rows from postbud_lock_lanes_1(lane_ids);
  end if;
  foreach one in array outcomes loop
    place := array_position(lane_ids, one.id);
    own := lane_rows[place];
    continue when one.token is distinct from own.lease_token;
    is_of_key := is_of_key or own.home_id is not null;
    is_waiting := is_waiting or one.waits;
    is_kept := one.keep_until is not null;
    if is_kept and is_repeated is null then
      is_repeated := delivered + failed + waited + dead_lettered < coalesce(jsonb_array_length(unfinished), 0)
        + cardinality(string_to_array(array_to_string(delivered_positions, ','), ','));
    end if;
    keep_to := least(to_timestamp(one.keep_until / 1000), longest_lease);
    -- Moved back since the claim: a replay put deliveries back, which come first.
    has_moved := own.head <> one.head_was or is_kept and (is_repeated or one.id = any (unsure));
    is_through := false;
    if own.home_id is not null and not is_kept and one.retry_at is null then
      is_through := not exists (
        select from deliveries
        -- The row is compared as the index of keys has it.
        where (lane_id, lane_key, position) > (own.home_id, own.held_key, one.head_is)
          and lane_id = own.home_id and lane_key = own.held_key
          and coalesce(state in ('pending', 'failing'), false)
      )
      -- A key that is halted further on waits there: the shared lane knows nothing of it.
      and not (is_bounded and exists (
        select from halts join deliveries using (lane_id, position)
        where halts.lane_id = own.home_id and halts.lane_key = own.held_key
          and deliveries.state = 'dead_lettered' and deliveries.dismissed_at is null
      ));
    end if;
    due := null;
    if is_kept then
      if own.home_id is not null then
        due := greatest(own.due_at, keep_to);
      elsif one.keep_until = 0 then
        due := own.due_at;
      else
        kept := kept || own.id;
        kept_until := greatest(kept_until, keep_to);
      end if;
    elsif has_moved then
      due := at;
    elsif is_through then
      due := null;
    elsif is_bounded and one.head_is >= postbud_front_1(
      own.topic, own.subscriber, coalesce(own.home_id, own.id), nullif(own.held_key, ''))
    then
      due := 'infinity';
    elsif one.retry_at is not null then
      due := to_timestamp(one.retry_at / 1000);
    elsif own.home_id is null then
      if own.tail > one.head_is and keeps_more then
        more := more || own.id;
      elsif own.tail > one.head_is then
        due := at;
      end if;
    else
      due := at;
    end if;
    makes_due := makes_due or not is_kept and coalesce(due <= at, false);
    own.head := case when has_moved then own.head else one.head_is end;
    own.tail := greatest(own.tail, one.head_is);
    own.careful_to := greatest(own.careful_to, one.careful_to);
    own.waits_for_version := case when not has_moved then one.waits_for_version end;
    own.lease_token := case when is_kept then own.lease_token end;
    own.leased_until := case when is_kept then greatest(own.leased_until, own.due_at, keep_to) end;
    own.due_at := due;
    places := places || addresses[place];
    let_go := let_go || own;
  end loop;
  update lanes set head = let_go.head, tail = let_go.tail, careful_to = let_go.careful_to,
    waits_for_version = let_go.waits_for_version, lease_token = let_go.lease_token,
    leased_until = let_go.leased_until, due_at = let_go.due_at
  from unnest(places, let_go) as let_go(address)
  where lanes.ctid = let_go.address;
  if cardinality(kept) > 0 then
    -- Where the settlement had to wait, all may have looked for relays that died up to then.
    insert into leases values (greatest(kept_until, clock_timestamp()), kept);
  end if;
  if is_waiting then
    perform postbud_record_presence_1(outcomes, held, answering, presences, at);
  end if;
  -- The key is through: what comes for it next goes to its shared lane again.
  if is_of_key then
    delete from lanes where id = any (held) and home_id is not null and due_at is null;
  end if;
end
$$;

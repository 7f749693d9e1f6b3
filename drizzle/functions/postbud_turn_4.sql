-- One turn of a relay in one round trip: fans out, settles what is done, and claims what is due. Each statement in here
-- sees what was committed before it began, and begins only if there is something for it to do: a turn costs as much as it
-- has statements, 10 to 15 microseconds for each before it does anything.
--
-- The order of locks is that of lib/bus/deliveries/locks.ts: the fan-out's, then all lanes that are changed, in the order of
-- their ids, then events, then counters. A claim passes over lanes that others have locked.
--
-- With `max_lanes` 0 it only settles: the relay's time is up. Lanes that it has lengthened or settled itself are leased without
-- being made due first, if they are few. With `is_looking` it looks at all that is due, and then nothing comes before what has
-- waited longer. `max_events`, `is_careful`, `awaited` and `memory` are for the fan-out. The subscriptions are texts of arrays, the
-- names with commas between them: an idle turn reads none of them, and reading hundreds would be a third of its work.
create or replace function postbud_turn_4(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb, leaving jsonb,
  memory jsonb,
  token uuid, names_text text, versions_text text, leases_text text, waits_text text,
  max_lanes int, max_deliveries int, is_looking boolean,
  max_events int, is_careful boolean, awaited int[],
  clock timestamptz
) returns json language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  few constant int := 16;
  -- Another one after each start and each recovery from a crash, and where the numbers of markers begin anew.
  server constant text := concat(pg_postmaster_start_time(), ' ', pg_last_wal_replay_lsn(), ' ',
    pg_relation_filenode('awaiting_fan_out_number_seq'));
  is_memory_new boolean := false;
  names text[];
  versions int[];
  leases_ms float8[];
  waits boolean[];
  now_at timestamptz := coalesce(clock, clock_timestamp());
  passed_at timestamptz;
  fanned record;
  fanned_out int := 0;
  is_awaited boolean := false;
  is_met boolean := false;
  is_clock_back boolean := false;
  is_durable boolean := outcomes is not null;
  lengthened bigint[];
  placed_at bigint;
  placed_event uuid;
  changes postbud_change_1[];
  wanted bigint[];
  outcome postbud_outcome_2;
  locked record;
  lane lanes;
  held bigint[] := '{}';
  lapsed bigint[] := '{}';
  is_down boolean;
  -- When the latest of the outages that are over ended; null where none is over, or this turn did not look.
  recovered_last timestamptz;
  is_paused boolean;
  is_bounded boolean;
  is_limited boolean := false;
  limited record;
  limited_in_ms float8;
  is_crowded boolean := false;
  is_direct boolean;
  settled record;
  settlement json;
  place int;
  turn int;
  turns int[];
  tails bigint[];
  firsts timestamptz[];
  due record;
  has_found_due boolean := false;
  claimed json;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform postbud_require_read_committed_1();
  end if;
  if memory ->> 'server' is distinct from server then
    -- What was pinned stays so: its transactions may be prepared ones.
    memory := jsonb_build_object('server', server, 'from', 0, 'movedAt', 0, 'wholeAt', 0, 'reserved', 0, 'pins', memory -> 'pins');
    is_memory_new := true;
  end if;
  if max_lanes > 0 then
    fanned := postbud_fan_out_3(memory, outcomes is null, max_events, is_careful, awaited);
    if fanned.memory is not null then
      memory := fanned.memory;
      is_memory_new := true;
    end if;
    fanned_out := fanned.events;
    is_awaited := fanned.is_awaited;
    is_met := fanned.is_met;
    is_clock_back := coalesce(fanned.is_ahead, false);
    is_durable := is_durable or fanned.is_durable;
    lengthened := fanned.lanes;
    placed_at := fanned.position;
    placed_event := fanned.event_id;
    changes := fanned.changes;
    wanted := lengthened;
  end if;
  if outcomes is not null then
    foreach outcome in array outcomes loop
      wanted := wanted || outcome.id;
      if outcome.home <> outcome.id then
        wanted := wanted || outcome.home;
      end if;
    end loop;
  end if;
  if wanted is not null then
    locked := postbud_lock_lanes_1(wanted);
  end if;
  if wanted is not null or is_looking then
    -- After the lanes are locked: who begins a backfill, or halts a lane, locks them too. Whether anything
    -- is due at all is asked first. Lanes of subscribers that are not attached here are due for long.
    select exists (select from outages where recovered_at is null), (select max(recovered_at) from outages),
      exists (select from pauses), exists (select from halts) or exists (select from backfills where ended_at is null),
      exists (select from subscriber_limits),
      case when is_looking then (select at from last_pass limit 1) end,
      is_looking and exists (select from lanes where due_at <= now_at order by due_at limit 1)
    into is_down, recovered_last, is_paused, is_bounded, is_limited, passed_at, is_crowded;
  end if;
  if max_lanes > 0 and is_looking then
    -- What operators go by to tell that a relay runs. Once a second is enough, and nobody waits to write it.
    if passed_at is null or passed_at < now_at - interval '1 second' then
      update last_pass set at = now_at where ctid = any (array(select ctid from last_pass for update skip locked));
    end if;
    -- A relay was here at a time that the clock has not come to. A clock that tests set goes where they want.
    is_clock_back := is_clock_back or clock is null and coalesce(passed_at > now_at + interval '10 seconds', false);
  end if;
  is_crowded := is_crowded and max_lanes > 0;
  if max_lanes > 0 and (wanted is not null or is_crowded) then
    names := string_to_array(names_text, ',');
    versions := versions_text;
    leases_ms := leases_text;
    waits := waits_text;
  end if;
  if is_crowded then
    is_crowded := exists (
      select from unnest(names) as name, lateral (
        select from lanes
        where topic = split_part(name, ' ', 1) and subscriber = split_part(name, ' ', 2) and due_at <= now_at limit 1
      ) as due
    );
  end if;
  is_direct := max_lanes > 0 and coalesce(cardinality(wanted), 0) <= least(few, max_lanes) and not is_crowded;
  if is_direct and is_limited and wanted is not null then
    is_direct := not exists (
      select from unnest(locked.rows) as lane join subscriber_limits using (subscriber)
    );
  end if;
  if outcomes is not null then
    foreach outcome in array outcomes loop
      if (locked.rows[array_position(locked.ids, outcome.id)]).lease_token = outcome.token then
        held := held || outcome.id;
        if (locked.rows[array_position(locked.ids, outcome.id)]).leased_until <= now_at then
          lapsed := lapsed || outcome.id;
        end if;
      end if;
    end loop;
    settled := postbud_settle_3(outcomes, delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms,
      delivered_in_ms, unfinished, leaving, locked.ids, locked.addresses, locked.rows, held, is_bounded,
      is_direct, now_at);
    changes := changes || settled.changes;
    settlement := json_build_object('held', held, 'lapsed', lapsed, 'leftFor', settled.left_for, 'delivered', settled.delivered,
      'failed', settled.failed, 'waited', settled.waited, 'deadLettered', settled.dead_lettered);
    is_crowded := is_crowded or settled.makes_due;
    if unfinished is not null then
      -- The settlement may have opened an outage.
      is_down := exists (select from outages where recovered_at is null);
    end if;
    wanted := lengthened || settled.more;
    if is_direct and wanted is not null then
      -- As the settlement left them.
      locked := postbud_lock_lanes_1(wanted);
    end if;
  end if;
  if cardinality(changes) > 0 then
    perform postbud_count_2(changes, now_at);
  end if;
  now_at := coalesce(clock, clock_timestamp());
  if is_direct and wanted is not null then
    for place in 1..cardinality(locked.ids) loop
      lane := locked.rows[place];
      -- An idle lane is due now. Another one is when it was to be looked at.
      turn := case
        when coalesce(lane.due_at, case when lane.lease_token is not null then lane.leased_until end, now_at) <= now_at
        then array_position(names, lane.topic || ' ' || lane.subscriber)
      end;
      if lane.waits_for_version > versions[turn] then
        turn := null;
      elsif turn is not null and (is_paused or is_down) then
        -- Asked only here: an expression with a query in it costs a query, whatever else it says.
        turn := case when not exists (
            select from pauses where pauses.subscriber = lane.subscriber and pauses.topic in ('', lane.topic)
          ) and not (waits[turn] and exists (
            select from outages where outages.subscriber = lane.subscriber and recovered_at is null
          )) then turn end;
      end if;
      turns[place] := turn;
    end loop;
    -- From their first place on: an array that begins at another one would be read from there.
    tails := array_fill(null::bigint, array[cardinality(locked.ids)]);
    firsts := array_fill(null::timestamptz, array[cardinality(locked.ids)]);
    if lengthened is not null then
      for number in 1..cardinality(lengthened) loop
        place := array_position(locked.ids, lengthened[number]);
        tails[place] := greatest(tails[place], fanned.tails[number]);
        firsts[place] := least(firsts[place], fanned.firsts[number]);
      end loop;
    end if;
    claimed := postbud_lease_1(token, versions, leases_ms, locked.addresses, locked.rows, turns, tails, firsts, null,
      is_bounded, max_deliveries, now_at, placed_at, placed_event);
  elsif lengthened is not null then
    -- There may be thousands.
    update lanes set tail = greatest(lanes.tail, longer.tail),
      due_at = case when lanes.lease_token is null then coalesce(lanes.due_at, least(longer.first_at, now_at))
        else lanes.due_at end
    from (
      select id, max(tail) as tail, min(first_at) as first_at
      from unnest(lengthened, fanned.tails, fanned.firsts) as longer(id, tail, first_at) group by id
    ) as longer, lateral (
      select ctid as address from lanes where lanes.id >= longer.id and lanes.id <= longer.id order by lanes.id desc limit 1
    ) as newest
    where lanes.ctid = newest.address;
  end if;
  if max_lanes > 0 and claimed is null and (is_crowded or not is_direct) then
    due := postbud_find_due_1(case when is_limited then postbud_unlimited_1(names) else names end, versions, leases_ms, waits,
      is_down, max_lanes, now_at);
    if due.ids is not null then
      has_found_due := true;
      -- In a newer snapshot, now that they are locked, as all that follows.
      locked := postbud_lock_lanes_1(due.ids);
      turns := null;
      for place in 1..cardinality(locked.ids) loop
        turns[place] := due.turns[array_position(due.ids, locked.ids[place])];
      end loop;
      is_bounded := exists (select from halts) or exists (select from backfills where ended_at is null);
      claimed := postbud_lease_1(token, versions, leases_ms, locked.addresses, locked.rows, turns, null, null, due.probes,
        is_bounded, max_deliveries, now_at, null, null);
    end if;
  elsif is_crowded then
    -- What this turn has made due, it has not looked for: the next one does.
    has_found_due := true;
  end if;
  if is_limited and max_lanes > 0 and (is_crowded or not is_direct) then
    limited := postbud_claim_limited_1(token, names, versions, leases_ms, waits, max_lanes, max_deliveries, now_at, claimed);
    claimed := limited.claimed;
    limited_in_ms := limited.next_in_ms;
    has_found_due := has_found_due or limited.has_found;
    -- Other relays go by what it has used, which handlers use on after a crash.
    is_durable := is_durable or limited.has_found;
  end if;
  -- What a crash takes back is done again, under the same numbers: a lease, and the fan-out before it. A settlement waits for
  -- the disk, and what is before it in the log with it.
  if not is_durable and pg_current_xact_id_if_assigned() is not null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  -- The clock once more: whoever had a lane before has settled it before that, and not before `now`.
  return json_build_object('now', extract(epoch from now_at) * 1000,
    'clock', extract(epoch from coalesce(clock, clock_timestamp())) * 1000, 'fannedOut', fanned_out,
    'isAwaited', is_awaited, 'isMet', is_met, 'isClockBack', is_clock_back,
    -- An older release reads only the first of these two.
    'hasRecovered', recovered_last is not null, 'recoveredAtMs', extract(epoch from recovered_last) * 1000,
    'hasFoundDue', has_found_due, 'memory', case when is_memory_new then memory end, 'settled', settlement,
    'claimed', claimed, 'limitedInMs', limited_in_ms);
end
$$;

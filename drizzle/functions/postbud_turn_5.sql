-- One turn of a relay in one round trip: gives events their places, settles what is done, and claims what is next. Each statement in
-- here sees what was committed before it began, and begins only if there is something for it to do.
--
-- Locks are taken in one order: the topics' placing locks by their hash, then lanes by their ids, then those of limited
-- subscribers that nobody else has.
--
-- It never waits for the disk: what a crash takes back is placed in the same order, claimed anew and delivered once more.
--
-- `topics` are those whose events are to be placed: null to settle only. `bounds` says for each topic up to when all is placed, as
-- this process knows it: in one life of the server, because what was placed last may be taken back by a crash.
--
-- `room` says how much it may take: `lanes`, `deliveries` over all of them and `events` of each topic. With `looks` it looks at all
-- topics and lanes, with `isWhole` also behind the bounds. With `share` it claims only so many of its lanes, by their ids, and leaves
-- the others to another loop. `continued` are lanes that it holds and that may go on. `behind` are lanes in which events wait that no
-- claim of the relay holding them includes, as the turn before found them: null for a relay that does not wait for other relays.
--
-- The subscriptions are texts of arrays: an idle turn reads none of them.
create or replace function postbud_turn_5(
  outcomes json, exceptional jsonb, token uuid, topics text[], bounds jsonb,
  names_text text, versions_text text, leases_text text, waits_text text,
  room jsonb, awaited int[], clock timestamptz
) returns json language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set jit = off as $$
declare
  -- Another one since its start, or its last recovery.
  server constant text := concat(pg_postmaster_start_time(), ' ', pg_last_wal_replay_lsn());
  own_token constant uuid := token;
  looks constant boolean := room ->> 'looks';
  max_lanes constant int := room ->> 'lanes';
  max_events constant int := room ->> 'events';
  is_careful constant boolean := room ->> 'isCareful';
  server_clock constant timestamptz := clock_timestamp();
  now_at timestamptz := coalesce(clock, server_clock);
  is_met boolean := true;
  is_awaited boolean := false;
  is_clock_back boolean := false;
  topic text;
  placed record;
  events int := 0;
  streams int[] := '{}';
  new_bounds jsonb := '{}';
  names text[];
  versions int[];
  leases_ms int[];
  waits boolean[];
  continued int[];
  behind int[] := '{}';
  wanted int[];
  due int[];
  probing int[];
  limited text;
  limited_lanes int[];
  of_limited record;
  limited_in_ms float8;
  claim record;
  claims json[] := '{}';
  synchronous_commit text;
  settled record;
  held int[] := '{}';
  repeated int[] := '{}';
  lapsed int[] := '{}';
begin
  if bounds <> '{}' and room ->> 'server' is distinct from server then
    bounds := '{}';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    perform postbud_require_read_committed_1();
  end if;
  if awaited is not null then
    is_met := postbud_await_emitters_1(awaited, outcomes is null);
  end if;
  if looks then
    select topics || coalesce(array_agg(known.topic) filter (where has_events), '{}'),
      -- Only a clock that was ahead explains a time in the future.
      coalesce(bool_or(has_late), false) or clock is null and coalesce((select at > now_at + interval '10 seconds' from last_pass limit 1), false),
      coalesce(jsonb_object_agg(known.topic, '-infinity') filter (where is_ahead), '{}')
    into topics, is_clock_back, new_bounds
    from (
      select distinct streams.topic from streams union select catalog_topics.topic from catalog_topics
      union select 'system.smoke_test.started'
    ) as known, lateral (
      select (bounds ->> known.topic)::timestamptz as bound, coalesce((bounds ->> known.topic)::timestamptz > server_clock, false) as is_ahead
    ) as remembered, lateral (
      select exists (
          select from awaiting
          where awaiting.topic = known.topic and created_at >= coalesce(case when not is_ahead then bound end, '-infinity') limit 1
        ) as has_events, exists (
          select from awaiting where awaiting.topic = known.topic and created_at > server_clock + interval '10 seconds' limit 1
        ) as has_late
    ) as asked;
    if (room ->> 'isWhole')::boolean then
      topics := topics || array(select distinct awaiting.topic from awaiting);
      bounds := '{}';
    end if;
  end if;
  if cardinality(topics) > 1 then
    topics := array(select named from unnest(topics) as named group by named order by hashtext(named), named);
  end if;
  if topics is not null then
    foreach topic in array topics loop
      placed := postbud_place_3(topic, coalesce((bounds ->> topic)::timestamptz, '-infinity'), max_events, is_careful);
      events := events + placed.events;
      is_awaited := is_awaited or placed.is_awaited;
      streams := streams || placed.streams;
      new_bounds := jsonb_set(new_bounds, array[topic], to_jsonb(placed.next_bound));
    end loop;
  end if;
  if outcomes is not null or streams <> '{}' or looks or jsonb_array_length(room -> 'continued') > 0 or room ->> 'behind' <> '[]' then
    if max_lanes > 0 then
      names := string_to_array(names_text, ',');
      versions := versions_text;
      leases_ms := leases_text;
      waits := waits_text;
      if streams <> '{}' then
        wanted := array(select id from lanes where stream = any (streams) and lanes.topic || ' ' || subscriber = any (names));
      end if;
      if room ->> 'behind' <> '[]' then
        wanted := wanted || array(select lane::int from jsonb_array_elements_text(room -> 'behind') as lane);
      end if;
      behind := coalesce(wanted, '{}');
      if looks then
        due := postbud_find_due_2(names, waits, max_lanes, now_at);
        if exists (select from outages where next_probe_at <= now_at) then
          probing := postbud_find_probes_1(names, waits, now_at);
        end if;
        wanted := wanted || due || probing;
      end if;
    end if;
    if outcomes is not null or jsonb_array_length(room -> 'continued') > 0 or cardinality(wanted) > 0 then
      -- As postbud_lock_lanes_2 does, and each once.
      select array_agg(id), coalesce(array_agg(id) filter (where is_limited), '{}') into wanted, limited_lanes
      from (
          select distinct id from (
            select unnest(wanted) as id
            union all select lane from json_to_recordset(outcomes) as outcome(lane int)
            union all select lane from jsonb_to_recordset(room -> 'continued') as kept(lane int)
          ) as named order by id
        ) as lane, lateral (
          select pg_advisory_xact_lock(36965, id), (
              select true from lanes, subscriber_limits as limits where lanes.id = lane.id and limits.subscriber = lanes.subscriber limit 1
            ) as is_limited
        ) as locked;
      now_at := coalesce(clock, clock_timestamp());
    end if;
    if outcomes is not null then
      settled := postbud_settle_4(outcomes, exceptional, now_at);
      held := coalesce(settled.held, '{}');
      repeated := coalesce(settled.repeated, '{}');
      lapsed := coalesce(settled.lapsed, '{}');
      if settled.is_any_silent then
        perform postbud_end_outages_1(array(
          select lane from json_to_recordset(outcomes) as outcome(lane int, is_answered boolean)
          where is_answered and lane = any (held)
        ), now_at);
      end if;
    end if;
    if max_lanes > 0 and jsonb_array_length(room -> 'continued') > 0 then
      continued := array(
        select lane from jsonb_to_recordset(room -> 'continued') as kept(lane int, token uuid)
        where kept.token = (
          select journal.token from journal where journal.lane = kept.lane order by head desc, number desc limit 1
        )
      );
    end if;
    if cardinality(probing) > 0 then
      -- One relay at a time probes a subscriber.
      probing := array(
        select lanes.id from lanes join outages using (subscriber) where lanes.id = any (probing) and next_probe_at <= now_at
        for update of outages skip locked
      );
    end if;
    if max_lanes > 0 and cardinality(wanted) > 0 then
      claim := postbud_claim_2(wanted[:coalesce((room ->> 'share')::int, cardinality(wanted))], limited_lanes, continued, probing,
        token, names, versions, leases_ms, waits, (room ->> 'deliveries')::int, 64, now_at);
      if claim.claimed is not null then
        claims := array[claim.claimed];
      end if;
      if room ->> 'behind' is null or behind <@ (claim.claimed_lanes || limited_lanes) then
        behind := '{}';
      else
        behind := array(
          select id from lane_heads
          where id = any (behind) and id <> all (limited_lanes) and leased_until > now_at and lane_heads.token <> own_token
            and tail > coalesce(claimed_to, head)
        );
      end if;
      if limited_lanes <> '{}' then
        for limited in
          select subscriber from subscriber_limits
          where subscriber in (select lanes.subscriber from lanes where id = any (limited_lanes)) order by 1
        loop
          of_limited := postbud_claim_limited_2(limited, probing, token, names, versions, leases_ms, waits, max_lanes,
            (room ->> 'deliveries')::int, max_events, now_at);
          if of_limited.claimed is not null then
            claims := claims || of_limited.claimed;
          end if;
          limited_in_ms := least(limited_in_ms, of_limited.next_in_ms);
        end loop;
      end if;
    end if;
    if cardinality(probing) > 0 then
      -- Whoever takes a probe puts the next one off until its lease has run out.
      update outages set probed_at = now_at, next_probe_at = lane.leased_until
      from lane_heads as lane
      where lane.id = any (probing) and lane.token = own_token and outages.subscriber = lane.subscriber;
    end if;
    if looks and max_lanes > 0 and not is_clock_back then
      -- What operators go by to tell that a relay runs. Once a second is enough, and nobody waits to write it. One that is ahead
      -- says that the clock was, until times are taken back.
      update last_pass set at = now_at
      where ctid = any (array(select ctid from last_pass where at is null or at < now_at - interval '1 second' or at > now_at for update skip locked));
    end if;
  end if;
  if pg_current_xact_id_if_assigned() is not null then
    synchronous_commit := set_config('synchronous_commit', 'off', true);
  end if;
  return json_build_object('now', extract(epoch from now_at) * 1000,
    'clock', extract(epoch from coalesce(clock, clock_timestamp())) * 1000, 'placed', events, 'isAwaited', is_awaited,
    'isMet', is_met, 'isClockBack', is_clock_back, 'server', server, 'bounds', new_bounds, 'hasMore', coalesce(cardinality(due) = max_lanes, false),
    'settled', case when outcomes is not null then json_build_object('held', held, 'repeated', repeated, 'lapsed', lapsed) end,
    'claimed', claims, 'limitedInMs', limited_in_ms, 'behind', behind);
end
$$;

-- Writes the next deliveries of a backfill, in order of position, and moves its front behind them. Where nothing is left it
-- ends the backfill, and whoever calls it makes the lanes due in the same transaction: nobody looks at them afterwards.
--
-- It locks no lane, so fan-out and relays go on meanwhile: nobody claims what is behind the front, and all lanes that it
-- writes to are there from the start. What it has written is due once its caller has woken them, in a transaction of its own,
-- because this one locks events. The order of locks is that of lib/bus/deliveries/locks.ts.
create or replace function postbud_backfill_1(
  backfill uuid, most int, at timestamptz, out written int, out is_ended boolean
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  asked record;
  own bigint[];
  sources bigint[];
  new_front bigint;
  positions bigint[];
  event_ids uuid[];
  bytes int[];
  keys text[];
  moved postbud_change_1[];
begin
  written := 0;
  is_ended := true;
  perform pg_advisory_xact_lock_shared(36953, 0);
  select * into asked from backfills where id = backfill and ended_at is null for update;
  if not found then
    return;
  end if;
  is_ended := asked.front >= asked.until;
  if is_ended then
    update backfills set ended_at = at where id = backfill;
    return;
  end if;
  sources := postbud_sources_1(asked.topic, asked.subscriber);
  own := array(
    select id from lanes where topic = asked.topic and subscriber = asked.subscriber and home_id is null
  );
  with next as materialized (
    select position, event_id, min(payload_bytes) as payload_bytes
    from unnest(sources) as source(id), lateral (
      select position, event_id, payload_bytes from deliveries
      where lane_id = source.id and position > asked.front and position <= asked.until order by position limit most
    ) as found
    group by position, event_id order by position limit most
  ),
  missing as (
    select next.*, ordering_key from next join events on events.id = next.event_id
    where created_at >= asked.since and not exists (
      select from deliveries where lane_id = any (own) and deliveries.position = next.position
    )
  )
  select (select case when count(*) < most then asked.until else max(position) end from next),
    array_agg(position order by position), array_agg(event_id order by position),
    array_agg(payload_bytes order by position), array_agg(ordering_key order by position)
  into new_front, positions, event_ids, bytes, keys from missing;
  if positions is not null then
    insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key, backfilled, attempt_log)
    select lane.id, position, event_id, payload_bytes, case when lane.slot is not null then key end, true,
      jsonb_build_array(jsonb_build_object('attempt', 0, 'at', at, 'durationMs', 0, 'outcome', 'backfilled',
        'by', asked.requested_by, 'reason', asked.reason))
    from unnest(positions, event_ids, bytes, keys) as missing(position, event_id, payload_bytes, key), lateral (
      select id, slot from lanes
      where topic = asked.topic and subscriber = asked.subscriber and held_key = ''
        and (slot = case when key <> '' then postbud_slot(key) end or ordering_key = '' and key = '')
    ) as lane;
    get diagnostics written = row_count;
    with locked as materialized (
      select id, topic, state as was from events where id = any (event_ids) order by id for update
    ),
    changed as (
      update events set open = open + 1, subscribers = array_append(subscribers, asked.subscriber)
      from locked where events.id = locked.id
      returning postbud_event_moved(locked.topic, was, state) as moved
    )
    select array_agg(changed.moved) into moved from changed;
    perform postbud_count_2(
      moved || row(asked.topic, asked.subscriber, written, 0, 0, 0, 0, 0, null, null)::postbud_change_1, at);
  end if;
  update backfills set front = new_front, written = backfills.written + postbud_backfill_1.written,
    next_at = case when per_minute is null then at
      -- What it was late for is caught up, but not more than ten seconds of it.
      else greatest(next_at, at - interval '10 seconds')
        + postbud_backfill_1.written * interval '1 minute' / per_minute end
  where id = backfill;
end
$$;
--> statement-breakpoint
-- Claims lanes of subscribers that have a rate or a concurrency, as far as these allow, over all relays together. The row of
-- a subscriber's limits is locked for it. Nobody waits for that: while another claim has it, the lanes are left to that one.
--
-- The rate is kept by the time until which deliveries are taken at an even pace (GCRA). At most a twentieth of the rate comes
-- at once. What is charged is what was claimed, a few deliveries a lane, so what a run gives back unused is little.
--
-- The lanes take turns by the times when they became due: a lane that goes on is due anew, behind the others. So that keys
-- take turns too, a shared lane is not leased here: its keys get lanes of their own, as keys in trouble do.
--
-- While a subscriber does not answer, one delivery probes, when that is due and the limits allow it (postbud_find_due_1).
create or replace function postbud_claim_limited_1(
  token uuid, names text[], versions int[], leases_ms float8[], waits boolean[], max_lanes int, max_deliveries int,
  at timestamptz,
  -- In: what was claimed before it.
  inout claimed json,
  out has_found boolean,
  -- When a rate allows the next delivery; null where none waits for that.
  out next_in_ms float8
) language plpgsql set enable_seqscan = off as $$
declare
  most_lanes constant int := 64;
  -- Deliveries of a lane, so that the others' turn comes soon.
  most_of_lane constant int := 16;
  limited text;
  bound subscriber_limits;
  step interval;
  room int;
  tokens int;
  is_bounded boolean;
  is_backfilled boolean;
  may_wait boolean;
  may_probe boolean;
  is_silent boolean;
  due record;
  keys record;
  ids bigint[];
  asked int[];
  turns int[];
  has_spread boolean;
  locked record;
  leased json;
  used int;
begin
  has_found := false;
  for limited, may_wait in
    select split_part(name, ' ', 2), bool_and(is_waiting)
    from unnest(names, waits) as asked(name, is_waiting)
      join subscriber_limits on subscriber_limits.subscriber = split_part(name, ' ', 2), lateral (
      select from lanes
      where lanes.topic = split_part(name, ' ', 1) and lanes.subscriber = split_part(name, ' ', 2) and lanes.due_at <= at limit 1
    ) as first
    group by 1 order by 1
  loop
    select next_probe_at <= at into may_probe from outages
    where may_wait and outages.subscriber = limited and recovered_at is null;
    is_silent := found;
    continue when not may_probe;
    select * into bound from subscriber_limits where subscriber_limits.subscriber = limited for update skip locked;
    if not found then
      next_in_ms := least(next_in_ms, 25);
      continue;
    end if;
    if is_silent then
      perform from outages
      where outages.subscriber = limited and recovered_at is null and next_probe_at <= at for update skip locked;
      continue when not found;
    end if;
    room := least(max_lanes, case when is_silent then 1 else most_lanes end);
    if bound.concurrency is not null then
      bound.held := array(
        select id from lanes where id = any (bound.held) and lease_token is not null and leased_until > at
      );
      room := least(room, bound.concurrency - cardinality(bound.held));
    end if;
    tokens := max_deliveries;
    if bound.rate_count is not null then
      step := bound.rate_ms * interval '1 millisecond' / bound.rate_count;
      -- A later time is of a clock that was ahead.
      bound.taken_until := least(greatest(bound.taken_until, at), at + greatest(1, bound.rate_count / 20) * step);
      tokens := least(tokens, greatest(1, bound.rate_count / 20)
        - ceil(extract(epoch from bound.taken_until - at) / extract(epoch from step) - 1e-6)::int);
      room := least(room, tokens);
    end if;
    ids := null;
    used := 0;
    while room > 0 loop
      ids := null;
      asked := null;
      has_spread := false;
      for due in
        select next.*, turn from unnest(names, versions) with ordinality as one(name, version, turn), lateral (
          select id, slot, home_id, lease_token, head, careful_to, lanes.due_at from lanes
          where lanes.topic = split_part(name, ' ', 1) and lanes.subscriber = limited and lanes.due_at <= at
            and coalesce(waits_for_version, 0) <= one.version
          order by lanes.due_at limit room for update skip locked
        ) as next
        where split_part(name, ' ', 2) = limited
          and not exists (select from pauses where pauses.subscriber = limited and pauses.topic in ('', split_part(name, ' ', 1)))
        order by next.due_at limit room
      loop
        -- Once the lane is locked: who begins a backfill locks it too. Older deliveries are still to come then, before those
        -- whose keys would get lanes.
        is_backfilled := exists (select from backfills where ended_at is null and backfills.subscriber = limited);
        if due.slot is null or due.home_id is not null or due.lease_token is not null or is_backfilled
          or is_silent or due.head < due.careful_to
        then
          ids := ids || due.id;
          asked := asked || due.turn::int;
        else
          has_spread := true;
          with waiting as materialized (
            select deliveries.position, deliveries.lane_key
            from postbud_next_2(due.id, null, due.slot, null, due.head, most_lanes) as next
              join deliveries on deliveries.lane_id = due.id and deliveries.position = next.position
          ),
          spread as (
            insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, due_at)
            select topic, subscriber, slot, lane_key, id, careful_to, first - 1, first,
              least(due.due_at + interval '1 microsecond' * row_number() over (order by first), at)
            from (select lane_key, min(position) as first from waiting group by lane_key) as key, lanes as home
            where home.id = due.id
            on conflict (home_id, held_key) where home_id is not null
              do update set head = least(lanes.head, excluded.head)
          )
          select count(*) as deliveries, max(position) as last into keys from waiting;
          update lanes set head = case when keys.deliveries < most_lanes then tail else keys.last end,
            due_at = case when keys.deliveries < most_lanes then null else at end
          where id = due.id;
        end if;
      end loop;
      exit when ids is not null or not has_spread;
    end loop;
    if ids is not null then
      has_found := true;
      -- In a newer snapshot, now that they are locked.
      locked := postbud_lock_lanes_1(ids);
      turns := null;
      for place in 1..cardinality(locked.ids) loop
        turns[place] := asked[array_position(ids, locked.ids[place])];
      end loop;
      is_bounded := exists (select from halts) or exists (select from backfills where ended_at is null);
      leased := postbud_lease_1(token, versions, leases_ms, locked.addresses, locked.rows, turns, null, null,
        case when is_silent then ids end, is_bounded,
        -- A lane that keys share would be handed over to a handler for each of them.
        cardinality(ids) * case when is_backfilled and bound.concurrency is not null then 1
          else least(most_of_lane, tokens / cardinality(ids)) end, at, null, null);
      select sum(json_array_length(one -> 'positions')) into used from json_array_elements(leased -> 'lanes') as one;
      claimed := json_build_object(
        'lanes', (select json_agg(one) from (
          select json_array_elements(claimed -> 'lanes') as one union all select json_array_elements(leased -> 'lanes')
        ) as lane),
        'events', (select json_agg(one) from (
          select json_array_elements(case when json_typeof(claimed -> 'events') = 'array' then claimed -> 'events' end) as one
          union all
          select json_array_elements(case when json_typeof(leased -> 'events') = 'array' then leased -> 'events' end)
        ) as event));
      update subscriber_limits set held = case when concurrency is not null then bound.held || ids else '{}' end,
        taken_until = case when rate_count is not null then bound.taken_until + used * step else taken_until end
      where subscriber_limits.subscriber = limited;
      if is_silent then
        -- Puts the next probe off, until this one's lease has run out.
        update outages set probed_at = at, next_probe_at = at + leases_ms[asked[1]] * interval '1 millisecond'
        where outages.subscriber = limited;
      end if;
    end if;
    if bound.rate_count is not null and tokens <= used then
      next_in_ms := least(next_in_ms, greatest(25, extract(epoch from
        bound.taken_until + (used - greatest(1, bound.rate_count / 20) + 1) * step - at) * 1000));
    end if;
  end loop;
end
$$;
--> statement-breakpoint
-- Fans out: writes one delivery for each subscriber that an event names, for the events whose place in the order is
-- certain, in (created_at, seq) order. The lanes are not touched: the caller lengthens them, since it locks all that it
-- changes together.
--
-- The quiet fence. `emit` takes a shared lock on its topic before it reads the clock and its marker draws a number. So an
-- event created before `at` belongs to a transaction that is visible to the statements after the one that reads the locks,
-- or that held its lock then. And a transaction has no event from before it began: what is older does not wait for it. One
-- fan-out at a time, so that positions are drawn in the order of their commits. While another one runs, this waits for it
-- if it may: whoever holds no other lock. Else it does nothing.
--
-- Where the clock steps back after `at`, transactions that lock later have events from before it too, and some of them are
-- committed. Their markers have later numbers than those that were drawn by then: nothing is fanned out that is as late as the
-- first of those. A role that may not read the number finds none of them.
--
-- `memory` is what its process learned from the call before, and goes into the next one:
--
-- - `from`: all markers up to this number are fanned out, or will never be, except where a pin says otherwise. What is dead
--   stands before it in the index, and is not read. It moves on a few times a second. Once a minute all is read (`wholeAt`).
-- - `pins`, by lock: which transactions must end before the events of its topics up to a moment (`at`) may be fanned out. It
--   waits for exactly those, not for silence, for a topic with a new emitter at every look is never quiet. Their events have
--   a `from` of their own, which for a second is read too. A prepared transaction survives a restart of the server, but
--   under another name: so one that was not there before may be any of those that were.
-- - `reserved`: up to which position deliveries may be numbered.
-- - `server`: in whose life this is true. A crash takes back numbers that were drawn; see postbud_turn_4.
--
-- Mostly nothing is pinned, few events wait, and nobody emits to their topics at this moment: whoever could lock such a topic
-- for himself knows that, and need not read the locks of all.
--
-- With `is_careful` each event is fanned out by itself, and one that cannot be is set aside: a row that should not exist
-- stops nothing but itself.
create or replace function postbud_fan_out_3(
  inout memory jsonb,
  may_wait boolean,
  max_events int,
  is_careful boolean,
  -- Backends whose transactions have emitted and are about to commit: this waits for them if it may, for some milliseconds.
  awaited int[],
  out at timestamptz,
  out events int,
  -- Whether events still wait for fan-out: for a producer's transaction, for another relay, or for the next turn.
  out is_awaited boolean,
  -- Whether the awaited transactions had ended when this looked.
  out is_met boolean,
  -- The lanes to be lengthened, up to where, and since when they are due.
  out lanes bigint[],
  out tails bigint[],
  out firsts timestamptz[],
  out changes postbud_change_1[],
  -- Where it is a single event: its place and its id.
  out "position" bigint,
  out event_id uuid,
  -- Whether events were recorded at a time that the clock has not come to.
  out is_ahead boolean,
  -- Whether the commit has to wait for the disk.
  out is_durable boolean
) language plpgsql as $$
declare
  scan_from bigint := memory -> 'from';
  -- What somebody wrote by hand, without the lock, may have been passed over.
  is_whole constant boolean := extract(epoch from clock_timestamp()) - (memory ->> 'wholeAt')::float8 > 60;
  pins jsonb := nullif(memory -> 'pins', 'null');
  topic_name text;
  last_topic text;
  topics text[];
  leasts timestamptz[];
  untils timestamptz[];
  uptos bigint[];
  found_events bigint;
  is_quiet boolean;
  number_now bigint;
  holders jsonb;
  began jsonb;
  passed jsonb;
  pinned_from bigint;
  marker_ids tid[];
  marker_id tid;
  placed record;
  rest record;
begin
  events := 0;
  is_awaited := false;
  is_durable := false;
  if is_whole then
    scan_from := 0;
  end if;
  is_met := awaited is null or postbud_await_emitters_1(awaited, may_wait);
  select min(topic), max(topic), count(*) into topic_name, last_topic, found_events
  from (select topic from awaiting_fan_out where number > scan_from order by number limit 1000) as first;
  if found_events > 0 then
    topics := array[topic_name];
    if last_topic <> topic_name then
      topics := array(
        select distinct topic
        from (select topic from awaiting_fan_out where number > scan_from order by number limit 1000) as first
      );
    end if;
  end if;
  if topics is null and pins is null then
    memory := case when is_whole then memory || jsonb_build_object('wholeAt', extract(epoch from clock_timestamp())) end;
    return;
  end if;
  if not pg_try_advisory_xact_lock(36952, 0) then
    if not may_wait then
      is_awaited := true;
      memory := null;
      return;
    end if;
    perform pg_advisory_xact_lock(36952, 0);
  end if;
  number_now := coalesce(pg_sequence_last_value('awaiting_fan_out_number_seq'), 0);
  at := clock_timestamp();
  is_quiet := pins is null and found_events < 1000 and not is_whole
    and extract(epoch from at) - (memory ->> 'movedAt')::float8 < 0.2;
  if is_quiet then
    foreach topic_name in array topics loop
      is_quiet := is_quiet and pg_try_advisory_lock(36951, hashtext(topic_name))
        and pg_advisory_unlock(36951, hashtext(topic_name));
    end loop;
  end if;
  if is_quiet then
    -- All that waits of these topics, and in a newer snapshot than the locks that were tried. By number: in the order of topics
    -- the dead stand before it, and without the offset the planner may choose that.
    marker_ids := array(
      select id from (
        select ctid as id, topic, created_at, seq from awaiting_fan_out where number > scan_from order by number offset 0
      ) as waiting
      where waiting.topic = any (topics) and created_at < least(at, (
        select min(late.created_at) from awaiting_fan_out as late where late.number > nullif(number_now, 0)
      )) order by created_at, seq limit max_events
    );
  else
    select jsonb_object_agg(lock, transactions), jsonb_object_agg(lock, began_at) into holders, began
    from (
      -- When the first of them began. Where that of one is not known, as of another role's or a prepared one, none is.
      select lock, jsonb_agg(transaction) as transactions,
        case when count(*) = count(began_at) then least(at, min(began_at)) end as began_at
      from (
        select objid::text as lock, virtualtransaction as transaction,
          case when pid is not null then (select xact_start from pg_stat_get_activity(pid)) end as began_at
        from pg_locks
        where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = 36951 and objsubid = 2
          and database = (select oid from pg_database where datname = current_database())
      ) as held
      group by lock
    ) as held;
    -- Per lock, when its topics may be fanned out up to a moment that is past; and what to wait for next.
    select min((memory_of ->> 'from')::bigint) filter (
        where memory_of is not null and (remaining is null or (memory_of ->> 'at')::timestamptz > at - interval '1 second')
      ),
      -- What is pinned for longer is not read, so nothing newer of its topics may be fanned out either.
      began - coalesce(array_agg(lock) filter (
        where remaining is not null and (memory_of ->> 'at')::timestamptz <= at - interval '1 second'
      ), '{}'),
      jsonb_object_agg(lock, memory_of) filter (where memory_of is not null and remaining is null),
      jsonb_object_agg(lock, case
        when remaining is not null then memory_of || jsonb_build_object('transactions', remaining)
        else jsonb_build_object('at', at, 'from', coalesce(memory_of -> 'from', to_jsonb(scan_from)),
          'upto', number_now, 'transactions', holder)
      end) filter (where holder is not null)
    into pinned_from, began, passed, pins
    from (
      select lock, holder, memory_of, (
        -- After a restart a prepared transaction has no backend. One like that which was not there before may be one of
        -- those that are gone.
        select jsonb_agg(transaction) from jsonb_array_elements_text(holder) as held(transaction)
        where memory_of -> 'transactions' ? transaction or transaction like '-1/%' and exists (
          select from jsonb_array_elements_text(memory_of -> 'transactions') as gone(transaction)
          where gone.transaction not like '-1/%' and not holder ? gone.transaction
        )
      ) as remaining
      from (
        select lock, held.value as holder, pinned.value as memory_of
        from jsonb_each(holders) as held(lock, value) full join jsonb_each(pins) as pinned(lock, value) using (lock)
      ) as locks
    ) as known;
    scan_from := least(scan_from, pinned_from);
    -- In a newer snapshot than the locks: an event that was committed meanwhile may be older than all that were seen.
    select array_agg(topic), array_agg(least_at), coalesce(sum(waiting), 0) into topics, leasts, found_events
    from (
      select topic, min(created_at) as least_at, count(*) as waiting
      from (
        select topic, created_at from awaiting_fan_out where number > scan_from order by number limit 1000
      ) as first
      -- Another order each time, so that under a flood no topic is always last.
      group by topic order by random()
    ) as waiting;
    select array_agg(case when coalesce(holders ? lock, false)
      then greatest((passed -> lock ->> 'at')::timestamptz, (began ->> lock)::timestamptz, '-infinity') else at end
      order by turn),
      array_agg(nullif(case when holders ? lock
          and (passed -> lock ->> 'at')::timestamptz > coalesce((began ->> lock)::timestamptz, '-infinity')
        then (passed -> lock ->> 'upto')::bigint else number_now end, 0) order by turn)
    into untils, uptos
    from unnest(topics) with ordinality as waiting(topic, turn),
      lateral (select (hashtext(topic)::bigint & 4294967295)::text as lock) as named;
    if found_events >= 1000 then
      -- Behind these there may be older ones of their topics.
      leasts := array_fill('-infinity'::timestamptz, array[cardinality(topics)]);
    end if;
    marker_ids := array(
      -- Each topic in its own order; between topics there is none, so that nothing need be sorted or read without effect.
      select waiting.id
      from unnest(topics, leasts, untils, uptos) as ready(topic, least_at, until, upto), lateral (
        select ctid as id from awaiting_fan_out
        where awaiting_fan_out.topic = ready.topic and created_at >= ready.least_at and created_at < least(ready.until, (
          select min(late.created_at) from awaiting_fan_out as late
          where late.number > ready.upto and late.topic = ready.topic
        ))
        order by created_at, seq limit max_events
      ) as waiting
      limit max_events
    );
  end if;
  if coalesce(pg_sequence_last_value('delivery_positions'), 0) + cardinality(marker_ids) > (memory -> 'reserved')::bigint
  then
    memory := memory || jsonb_build_object('reserved', postbud_reserve_positions_1(memory ->> 'server', cardinality(marker_ids)));
    is_durable := true;
  end if;
  if not is_careful then
    if cardinality(marker_ids) > 0 then
      placed := postbud_place_2(marker_ids);
      events := placed.events;
      lanes := placed.lanes;
      tails := placed.tails;
      firsts := placed.firsts;
      changes := placed.changes;
      position := placed.position;
      event_id := placed.event_id;
    end if;
  else
    foreach marker_id in array marker_ids loop
      begin
        select * into strict placed from postbud_place_2(array[marker_id]);
        events := events + placed.events;
        lanes := lanes || placed.lanes;
        tails := tails || placed.tails;
        firsts := firsts || placed.firsts;
        changes := changes || placed.changes;
      exception
        -- A statement that is cancelled, and a lock that somebody else holds, say nothing about the row.
        when serialization_failure or deadlock_detected or lock_not_available or query_canceled then
          raise;
        when others then
          with unfit as (
            delete from awaiting_fan_out where ctid = marker_id returning *
          )
          insert into set_aside (at, kind, topic, event_id, found)
          select clock_timestamp(), 'unfit_marker', unfit.topic, unfit.event_id,
            to_jsonb(unfit) || jsonb_build_object('error', sqlerrm, 'code', sqlstate)
          from unfit;
      end;
    end loop;
  end if;
  if is_quiet then
    -- Only the locks of these topics are known.
    memory := case when is_durable then memory end;
    is_awaited := events < found_events;
    return;
  end if;
  -- How far all is fanned out, but for what is pinned; and the same for each pin whose moment has come. Not beyond the numbers
  -- that were drawn before the locks were read: of the emitters that came since, some are open.
  with left_over as materialized (
    select number, created_at, topic, (hashtext(topic)::bigint & 4294967295)::text as lock
    from awaiting_fan_out where number > scan_from order by number limit 1000
  )
  select count(*) as events, max(number) as upto, min(number) filter (where pins is null or not pins ? lock) as first,
    (select jsonb_object_agg(lock, first) from (select lock, min(number) as first from left_over group by lock) as of_lock)
      as firsts,
    -- Only a clock that was ahead explains a time in the future. Nothing else leaves a topic without an event to fan out.
    coalesce(bool_or(created_at > at + interval '10 seconds'), false) as is_ahead
  into rest from left_over;
  is_ahead := rest.is_ahead;
  memory := memory || jsonb_build_object('movedAt', extract(epoch from at), 'from', greatest(scan_from,
      least(number_now, coalesce(rest.first - 1, case when rest.events = 1000 then rest.upto else number_now end))),
    'wholeAt', case when is_whole then to_jsonb(extract(epoch from at)) else memory -> 'wholeAt' end, 'pins', (
      select jsonb_object_agg(lock, pin || case
        when passed ? lock and rest.events < 1000 then jsonb_build_object('from',
          least((rest.firsts ->> lock)::bigint - 1, (passed -> lock ->> 'upto')::bigint))
        else '{}'
      end || case when rest.firsts ? lock then '{"waits": true}' else '{}' end::jsonb)
      from jsonb_each(pins) as pinned(lock, pin)
    ));
  is_awaited := rest.events > 0 or coalesce(memory -> 'pins' @? '$.*.waits', false);
end
$$;
--> statement-breakpoint
-- Records outcomes and lets the lanes go, or keeps them. A lane whose token is no longer the relay's is passed over with
-- all its outcomes; doing it twice changes nothing the second time. The lanes and their homes must be locked.
--
-- Counters that a row changed by hand contradicts stay where they can be: the doctor finds them, and no lane stops for them.
--
-- `delivered_*`: deliveries of a lane with the same times, to the millisecond, are one row with all their positions.
-- `lane_ids`, `addresses` and `lane_rows` are the locked lanes, and `held` those whose token is still the relay's. With `keeps_more` a lane that
-- has more to deliver is not made due: the caller leases it at once.
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
  one postbud_outcome_2;
  is_of_key boolean := false;
  is_waiting boolean := false;
  moved postbud_change_1[];
  is_small boolean := cardinality(delivered_lanes) <= 16;
  delivery record;
  event_ids uuid[] := '{}';
  opens int[] := '{}';
  failings int[] := '{}';
  place int;
  own lanes;
  again record;
  new_head bigint;
  is_kept boolean;
  due timestamptz;
  places tid[] := '{}';
  heads bigint[] := '{}';
  tails bigint[] := '{}';
  carefuls bigint[] := '{}';
  waits smallint[] := '{}';
  tokens uuid[] := '{}';
  untils timestamptz[] := '{}';
  dues timestamptz[] := '{}';
  kept bigint[] := '{}';
  kept_until timestamptz;
begin
  foreach one in array outcomes loop
    is_of_key := is_of_key or one.id <> one.home;
    is_waiting := is_waiting or one.waits;
  end loop;
  delivered := 0;
  failed := 0;
  waited := 0;
  dead_lettered := 0;
  makes_due := unfinished is not null or leaving is not null;
  if is_small then
    for number in 1..cardinality(delivered_lanes) loop
      is_small := is_small and strpos(delivered_positions[number], ',') = 0;
    end loop;
  end if;
  if is_small and cardinality(delivered_lanes) > 0 then
    for delivery in
      update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.in_ms,
        attempted_at = to_timestamp(attempt.at_ms / 1000),
        delivered_at = to_timestamp((attempt.at_ms + attempt.in_ms) / 1000), next_attempt_at = null
      from unnest(delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms, delivered_in_ms)
        as attempt(lane, home, positions, at_ms, in_ms)
      where deliveries.lane_id = attempt.home and deliveries.position = trim(attempt.positions, '{}')::bigint
        and coalesce(deliveries.state in ('pending', 'failing'), false)
        and (is_all_held or attempt.lane = any (held))
      returning attempt.lane, deliveries.event_id, (deliveries.attempts > 1)::int as was_failing,
        (deliveries.attempts = 1 and replays = 0)::int as first_attempt, deliveries.delivered_at
    loop
      delivered := delivered + 1;
      own := lane_rows[array_position(lane_ids, delivery.lane)];
      changes := changes || row(own.topic, own.subscriber, delivery.was_failing - 1, -delivery.was_failing, 0, 1,
        delivery.first_attempt, 0, delivery.delivered_at, null)::postbud_change_1;
      place := array_position(event_ids, delivery.event_id);
      if place is null then
        event_ids := event_ids || delivery.event_id;
        opens := opens || 1;
        failings := failings || delivery.was_failing;
      else
        opens[place] := opens[place] + 1;
        failings[place] := failings[place] + delivery.was_failing;
      end if;
    end loop;
    for delivery in
      -- In the order of their ids, as below.
      update events set open = greatest(events.open - change.open, 0),
        failing = least(greatest(events.failing - change.failing, 0), greatest(events.open - change.open, 0))
      from (select * from unnest(event_ids, opens, failings) as change(id, open, failing) order by id) as change
      where events.id = change.id
      returning events.topic, events.state as becomes, postbud_event_state(
        events.open + change.open, events.failing + change.failing, events.dead_lettered) as was
    loop
      if delivery.was <> delivery.becomes then
        changes := changes || postbud_event_moved(delivery.topic, delivery.was, delivery.becomes);
      end if;
    end loop;
  elsif cardinality(delivered_lanes) > 0 then
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
      update events set open = greatest(events.open - change.open, 0),
        failing = least(greatest(events.failing - change.failing, 0), greatest(events.open - change.open, 0))
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
        from lane_change join unnest(lane_rows) as lanes
          on lanes.id = lane
      ),
      array(select postbud_event_moved(topic, was, becomes) from changed_event where was <> becomes)
    into delivered, changes, moved;
    delivered := coalesce(delivered, 0);
    changes := changes || moved;
  end if;
  if unfinished is not null then
    if unfinished @? '$[*].error_group.rest' then
      unfinished := postbud_bound_groups_1(unfinished);
    end if;
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
          -- Where the lane is kept, an earlier settlement of these outcomes may have recorded it, whose answer was lost.
          and (deliveries.attempt_log -> -1) - 'attempt' is distinct from attempt.entry
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
        update events set open = greatest(events.open - change.dead, 0),
          failing = least(greatest(events.failing + change.failing, 0), greatest(events.open - change.dead, 0)),
          dead_lettered = events.dead_lettered + change.dead
        from (select * from change order by event_id) as change
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
          do update set head = least(lanes.head, excluded.head), due_at = excluded.due_at,
            careful_to = greatest(lanes.careful_to, excluded.careful_to)
      ),
      halted as (
        insert into halts (lane_id, position, lane_key, topic, subscriber, halted_at)
        select home, settled.position, settled.lane_key, topic, subscriber, settled.at
        from settled join unnest(lane_rows) as lanes
          on lanes.id = settled.lane
        where halts
        on conflict (lane_id, position) do update set halted_at = excluded.halted_at
      ),
      dead as (
        insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
        select error_group ->> 'key', topic, subscriber, min(error_group ->> 'kind'), min(error_group ->> 'message'),
          count(*)
        from settled join unnest(lane_rows) as lanes
          on lanes.id = settled.lane
        where settled.dead = 1
        -- After the events, in the order of their keys.
          and (select count(*) from changed_event) >= 0
        group by 1, 2, 3 order by 1
        on conflict (key) do update set dead_lettered = known.dead_lettered + excluded.dead_lettered
      )
      select array(
          select row(topic, subscriber, (-settled.dead - settled.failing), settled.failing, settled.dead, 0, 0,
            settled.burnt, null, failed_at)::postbud_change_1
          from settled join unnest(lane_rows) as lanes
            on lanes.id = settled.lane
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
    insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, waits_for_version,
      held_version, lease_token, leased_until, due_at)
    select topic, subscriber, slot, key, home.id, greatest(home.careful_to, outcome.careful_to),
      case when home.head = outcome.head_was then key_leaving.position - 1
        else least(key_leaving.position - 1, home.head) end,
      key_leaving.position,
      key_leaving.waits_for_version, home.held_version,
      case when key_leaving.keep_until is not null then home.lease_token end,
      to_timestamp(key_leaving.keep_until / 1000), coalesce(to_timestamp(key_leaving.keep_until / 1000), at)
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
  end if;
  is_bounded := is_bounded or unfinished is not null and exists (select from halts);
  if is_waiting then
    perform postbud_record_presence_1(outcomes, held, delivered_lanes, unfinished, at);
  end if;
  if makes_due then
    -- As the statements above left them.
    again := postbud_lock_lanes_1(lane_ids);
    lane_ids := again.ids;
    addresses := again.addresses;
    lane_rows := again.rows;
  end if;
  foreach one in array outcomes loop
    place := array_position(lane_ids, one.id);
    own := lane_rows[place];
    continue when one.token is distinct from own.lease_token;
    is_kept := one.keep_until is not null;
    -- Moved back since the claim: a replay put deliveries back, which come first.
    new_head := case when own.head = one.head_was then one.head_is else own.head end;
    due := null;
    if is_kept then
      if own.home_id is not null then
        due := greatest(own.due_at, to_timestamp(one.keep_until / 1000));
      elsif one.keep_until = 0 then
        due := own.due_at;
      else
        kept := kept || own.id;
        kept_until := greatest(kept_until, to_timestamp(one.keep_until / 1000));
      end if;
    elsif own.head <> one.head_was then
      due := at;
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
    elsif exists (
      select from deliveries
      -- The row is compared as the index of keys has it.
      where (lane_id, lane_key, position) > (own.home_id, own.held_key, one.head_is)
        and lane_id = own.home_id and lane_key = own.held_key
        and coalesce(state in ('pending', 'failing'), false)
    ) then
      due := at;
    end if;
    makes_due := makes_due or not is_kept and coalesce(due <= at, false);
    places := places || addresses[place];
    heads := heads || new_head;
    tails := tails || greatest(own.tail, one.head_is);
    carefuls := carefuls || greatest(own.careful_to, one.careful_to);
    waits := waits || case when own.head = one.head_was then one.waits_for_version end;
    tokens := tokens || case when is_kept then own.lease_token end;
    untils := untils || case when is_kept
      then greatest(own.leased_until, own.due_at, to_timestamp(one.keep_until / 1000)) end;
    dues := dues || due;
  end loop;
  update lanes set head = let_go.head, tail = let_go.tail, careful_to = let_go.careful_to,
    waits_for_version = let_go.waits, lease_token = let_go.token, leased_until = let_go.until, due_at = let_go.due
  from unnest(places, heads, tails, carefuls, waits, tokens, untils, dues)
    as let_go(address, head, tail, careful_to, waits, token, until, due)
  where lanes.ctid = let_go.address;
  if cardinality(kept) > 0 then
    insert into leases values (kept_until, kept);
  end if;
  -- The key is through: what comes for it next goes to its shared lane again.
  if is_of_key then
    delete from lanes where id = any (held) and home_id is not null and due_at is null;
  end if;
end
$$;
--> statement-breakpoint
-- What each process does once a second, beside its turns: it makes the lanes due of relays that died, and folds counters.
-- @returns the clock, and how many lanes are due by it.
create or replace function postbud_tidy_1(
  -- When this process tidied last: it has looked for relays that died, and folded, up to then. Null for the first time.
  clock timestamptz, since timestamptz, out now_at timestamptz, out rescued int
) language plpgsql
set enable_seqscan = off as $$
declare
  -- Counters are kept by stretches of four seconds.
  stretch constant bigint := floor(extract(epoch from clock_timestamp()) / 4);
  -- A later time is of a clock that was ahead: it has looked nowhere by this one.
  seen_until constant timestamptz := case when since <= clock_timestamp() then since end;
  last_stretch constant bigint := floor(extract(epoch from seen_until) / 4);
  -- Each stretch is folded when it is over, and once more after two minutes: for what was locked, or not committed yet. What
  -- has been folded is dead rows, and a snapshot may keep them.
  ranges constant int8range[] := case when last_stretch is null then array[int8range(64, (stretch - 2) * 64)]
    else array(
      select int8range(greatest((last_stretch - age) * 64, 64), (stretch - age) * 64)
      from unnest(array[2, 30]) as age where last_stretch < stretch
    ) end;
  held bigint[];
  locked record;
begin
  now_at := coalesce(clock, clock_timestamp());
  with passed as (
    -- A turn takes less time than a lease lasts: what is older has been seen.
    delete from leases where until > coalesce(seen_until - interval '1 second', '-infinity') and until <= now_at returning lanes
  )
  select array_agg(id) into held from passed, unnest(lanes) as id;
  rescued := 0;
  if held is not null then
    locked := postbud_lock_lanes_1(held);
    -- In a newer snapshot, now that they are locked: a lane that a turn has lengthened meanwhile has another address.
    update lanes set due_at = leased_until
    where ctid = any (locked.addresses) and lease_token is not null and due_at is null and leased_until <= now_at;
    get diagnostics rescued = row_count;
  end if;
  with recent as (
    select id from unnest(ranges) as stretches, lateral (
      select ctid as id from backlog where shard >= 64 and shard >= lower(stretches) and shard < upper(stretches)
      order by topic, subscriber, shard for update skip locked
    ) as row
  ),
  folded as (
    delete from backlog where ctid = any (array(select id from recent)) returning *
  )
  insert into backlog as total (topic, subscriber, shard, pending, failing, dead_lettered, last_delivered_at,
    last_failed_at, delivered_total, failed_total, dead_lettered_total)
  select topic, subscriber, shard % 64, sum(pending), sum(failing), sum(dead_lettered),
    max(last_delivered_at), max(last_failed_at), sum(delivered_total), sum(failed_total), sum(dead_lettered_total)
  from folded group by 1, 2, 3 order by 1, 2, 3
  on conflict (topic, subscriber, shard) do update set pending = total.pending + excluded.pending,
    failing = total.failing + excluded.failing, dead_lettered = total.dead_lettered + excluded.dead_lettered,
    last_delivered_at = greatest(total.last_delivered_at, excluded.last_delivered_at),
    last_failed_at = greatest(total.last_failed_at, excluded.last_failed_at),
    delivered_total = total.delivered_total + excluded.delivered_total,
    failed_total = total.failed_total + excluded.failed_total,
    dead_lettered_total = total.dead_lettered_total + excluded.dead_lettered_total;
  with recent as (
    select id from unnest(ranges) as stretches, lateral (
      select ctid as id from throughput where shard >= 64 and shard >= lower(stretches) and shard < upper(stretches)
      order by hour, topic, shard for update skip locked
    ) as row
  ),
  folded as (
    delete from throughput where ctid = any (array(select id from recent)) returning *
  )
  insert into throughput as total (hour, topic, shard, delivered, first_attempt, dead_lettered)
  select hour, topic, shard % 64, sum(delivered), sum(first_attempt), sum(dead_lettered)
  from folded group by 1, 2, 3 order by 1, 2, 3
  on conflict (hour, topic, shard) do update set delivered = total.delivered + excluded.delivered,
    first_attempt = total.first_attempt + excluded.first_attempt,
    dead_lettered = total.dead_lettered + excluded.dead_lettered;
  -- This process does not look there again. So what it rescues has to outlast a crash, and also the claim by which another
  -- relay has a lane since, before this passed over it.
  if held is null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
end
$$;
--> statement-breakpoint
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
  has_recovered boolean := false;
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
    select exists (select from outages where recovered_at is null), exists (select from outages where recovered_at is not null),
      exists (select from pauses), exists (select from halts) or exists (select from backfills where ended_at is null),
      exists (select from subscriber_limits),
      case when is_looking then (select at from last_pass limit 1) end,
      is_looking and exists (select from lanes where due_at <= now_at order by due_at limit 1)
    into is_down, has_recovered, is_paused, is_bounded, is_limited, passed_at, is_crowded;
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
      turn := array_position(names, lane.topic || ' ' || lane.subscriber);
      -- An idle lane is due now. Another one is when it was to be looked at.
      if coalesce(lane.due_at, case when lane.lease_token is not null then lane.leased_until end) > now_at or lane.waits_for_version > versions[turn] then
        turn := null;
      end if;
      if is_paused and exists (
        select from pauses where pauses.subscriber = lane.subscriber and pauses.topic in ('', lane.topic)
      ) then
        turn := null;
      end if;
      if is_down and waits[turn] and exists (
        select from outages where outages.subscriber = lane.subscriber and recovered_at is null
      ) then
        turn := null;
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
    due := postbud_find_due_1(case when is_limited then postbud_unlimited_1(names) else names end, versions, leases_ms, waits, is_down, max_lanes, now_at);
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
    'hasRecovered', has_recovered, 'hasFoundDue', has_found_due, 'memory', case when is_memory_new then memory end, 'settled', settlement,
    'claimed', claimed, 'limitedInMs', limited_in_ms);
end
$$;
--> statement-breakpoint
-- The names of subscriptions, topic and subscriber, without those of subscribers with a limit.
create or replace function postbud_unlimited_1(names text[]) returns text[] language sql stable as $$
  select array_agg(
    case when exists (select from subscriber_limits where subscriber = split_part(name, ' ', 2)) then '' else name end
    order by turn)
  from unnest(names) with ordinality as asked(name, turn)
$$;

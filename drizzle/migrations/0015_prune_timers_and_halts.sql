ALTER TABLE "pruned_events" ADD COLUMN "reached" uuid;--> statement-breakpoint
-- Cancels a timer, in the caller's transaction: `cancelTimer` for producers in other languages. It runs with the owner's
-- rights, as `postbud_emit` does.
--
-- Returns whether there was one. Once this has committed after `true`, its event never happens. `false` says that it was
-- released or cancelled before, or never set. Raises PB001 and PB004 as `postbud_emit` does.
create or replace function postbud_cancel_timer(topic text, timer_key text)
returns boolean language plpgsql security definer
set search_path = pg_catalog, public, pg_temp as $$
#variable_conflict use_column
begin
  perform postbud_require_emitter_1(postbud_cancel_timer.topic);
  return postbud_delete_timer_1(postbud_cancel_timer.topic, postbud_cancel_timer.timer_key) is not null;
end
$$;
--> statement-breakpoint
-- Cancels a timer once for a dedupe key: a repeated request cancels none that was set since.
--
-- Returns the cancelled timer's id, null where there was none, and whether this request is the first.
create or replace function postbud_cancel_timer_once_1(topic text, timer_key text, dedupe_key text)
returns json language plpgsql as $$
#variable_conflict use_column
declare
  cancelled uuid;
begin
  insert into timer_dedupe_keys (topic, dedupe_key, at)
  values (postbud_cancel_timer_once_1.topic, postbud_cancel_timer_once_1.dedupe_key, clock_timestamp())
  on conflict do nothing;
  if not found then
    return (select json_build_object('id', timer_id, 'isNew', false) from timer_dedupe_keys
      where timer_dedupe_keys.topic = postbud_cancel_timer_once_1.topic
        and timer_dedupe_keys.dedupe_key = postbud_cancel_timer_once_1.dedupe_key);
  end if;
  cancelled := postbud_delete_timer_1(postbud_cancel_timer_once_1.topic, postbud_cancel_timer_once_1.timer_key);
  update timer_dedupe_keys set timer_id = cancelled where timer_dedupe_keys.topic = postbud_cancel_timer_once_1.topic
    and timer_dedupe_keys.dedupe_key = postbud_cancel_timer_once_1.dedupe_key;
  return json_build_object('id', cancelled, 'isNew', true);
end
$$;
--> statement-breakpoint
-- Deletes a timer that its producer cancels, and returns its id; null where there is none. One that was set aside is that no
-- longer.
create or replace function postbud_delete_timer_1(topic text, timer_key text) returns uuid language plpgsql as $$
#variable_conflict use_column
declare
  deleted record;
begin
  loop
    delete from timers
    where timers.topic = postbud_delete_timer_1.topic and timers.timer_key = postbud_delete_timer_1.timer_key
    returning id, refused_at into deleted;
    exit when found or not exists (
      -- The deletion may have waited for a transaction that deleted the timer and set it again.
      select from timers
      where timers.topic = postbud_delete_timer_1.topic and timers.timer_key = postbud_delete_timer_1.timer_key
    );
  end loop;
  if deleted.refused_at is not null then
    perform postbud_settle_unfit_timer_1(
      postbud_delete_timer_1.topic, postbud_delete_timer_1.timer_key, 'cancelled by its producer');
  end if;
  return deleted.id;
end
$$;
--> statement-breakpoint
-- Writes the deliveries of these markers, which it deletes, in (created_at, seq) order.
create or replace function postbud_place_2(
  marker_ids tid[],
  out events int,
  -- The lanes to be lengthened, up to where, and since when they are due. Null where there is none: of events for nobody.
  out lanes bigint[],
  out tails bigint[],
  out firsts timestamptz[],
  out changes postbud_change_1[],
  -- Where it is a single event: its place and its id.
  out "position" bigint,
  out event_id uuid
) language plpgsql as $$
#variable_conflict use_column
declare
  one record;
  batch record;
  ids bigint[];
  subscriber text;
begin
  events := 0;
  changes := '{}';
  if cardinality(marker_ids) = 1 then
    delete from awaiting_fan_out where ctid = marker_ids[1]
    returning topic, created_at, awaiting_fan_out.event_id, ordering_key, payload_bytes, subscribers,
      case when ordering_key <> '' then postbud_slot(ordering_key) end as slot
    into one;
    if found then
      events := 1;
      event_id := one.event_id;
      position := nextval('delivery_positions');
      lanes := postbud_lanes_2(one.topic, one.subscribers, one.slot, position);
      insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key)
      select lane.id, postbud_place_2.position, one.event_id, one.payload_bytes, nullif(one.ordering_key, '')
      from unnest(lanes) as lane(id);
      tails := array_fill(position, array[cardinality(lanes)]);
      firsts := array_fill(one.created_at, array[cardinality(lanes)]);
      if cardinality(lanes) > 0 then
        changes := changes || row(one.topic, '', 1, 0, 0, 0, 0, 0, null, null)::postbud_change_1;
      end if;
      foreach subscriber in array one.subscribers loop
        changes := changes || row(one.topic, subscriber, 1, 0, 0, 0, 0, 0, null, null)::postbud_change_1;
      end loop;
      lanes := nullif(lanes, '{}');
    end if;
    return;
  end if;
  for batch in
    with picked as (
      -- By address, not by a join, which would read all that waits.
      delete from awaiting_fan_out where ctid = any (marker_ids) returning awaiting_fan_out.*
    ),
    placed as (
      select *, nextval('delivery_positions') as position
      from (select * from picked order by created_at, seq) as in_order
    )
    select topic, slot, subscribers, array_agg(position order by position) as positions,
      array_agg(event_id order by position) as event_ids,
      array_agg(nullif(ordering_key, '') order by position) as keys,
      array_agg(payload_bytes order by position) as bytes, max(position) as tail, min(created_at) as first_at
    from placed, lateral (
      select case when ordering_key <> '' then postbud_slot(ordering_key) end as slot
    ) as addressed
    group by topic, slot, subscribers
  loop
    events := events + cardinality(batch.positions);
    ids := postbud_lanes_2(batch.topic, batch.subscribers, batch.slot, batch.tail);
    insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key)
    select lane.id, position, event_id, payload_bytes, ordering_key
    from unnest(ids) as lane(id), unnest(batch.positions, batch.event_ids, batch.bytes, batch.keys)
      as placed(position, event_id, payload_bytes, ordering_key);
    lanes := lanes || ids;
    tails := tails || array_fill(batch.tail, array[cardinality(ids)]);
    firsts := firsts || array_fill(batch.first_at, array[cardinality(ids)]);
    -- The event's own, then those of its subscribers. One for nobody waits for nothing.
    if cardinality(ids) > 0 then
      changes := changes
        || row(batch.topic, '', cardinality(batch.positions), 0, 0, 0, 0, 0, null, null)::postbud_change_1;
    end if;
    foreach subscriber in array batch.subscribers loop
      changes := changes
        || row(batch.topic, subscriber, cardinality(batch.positions), 0, 0, 0, 0, 0, null, null)::postbud_change_1;
    end loop;
  end loop;
  lanes := nullif(lanes, '{}');
end
$$;
--> statement-breakpoint
-- Releases timers that are due, in the order of their times: deletes each and records its event, for the subscribers that the
-- catalog lists now. What commits first stands. A timer that an open transaction moves or cancels is not waited for, but no
-- later one of its topic is released before it is known what becomes of it.
--
-- One releases at a time, so that events are recorded in the order of times. A timer whose payload the catalog does not accept
-- any more is set aside, and stays until an operator repairs or cancels it.
create or replace function postbud_release_timers_1(
  clock timestamptz,
  -- Their events' times are a microsecond apart: fewer than 1000 take no millisecond.
  max_timers int,
  out released int,
  -- How long until the next one is due; null where there is none.
  out next_in_ms float8
) language plpgsql
-- An event with the same dedupe key may be in an open transaction.
set lock_timeout = '200ms' set enable_seqscan = off as $$
declare
  now_at constant timestamptz := coalesce(clock, clock_timestamp());
  due uuid[];
  taken uuid[];
  held text[] := '{}';
  kind record;
  known catalog_topics;
  checked record;
  portion int;
  place int := 1;
  moved record;
  last_at timestamptz := '-infinity';
begin
  released := 0;
  loop
    due := array(
      select id from timers where refused_at is null and due_at <= now_at and topic <> all (held)
      order by due_at, seq limit max_timers
    );
    exit when due = '{}' or held = '{}' and not pg_try_advisory_xact_lock(36964, 0);
    perform postbud_require_read_committed_1();
    taken := array(
      select id from timers where id = any (due) and refused_at is null and due_at <= now_at
      order by due_at, seq for update skip locked
    );
    exit when cardinality(taken) = cardinality(due);
    -- The others are gone, or somebody holds them. Of a topic only what is before its first such timer goes on.
    select coalesce(array_agg(id order by due_at, seq) filter (where is_free), '{}'),
      held || coalesce(array_agg(distinct topic) filter (where not is_free), '{}')
    into taken, held
    from (
      select id, topic, due_at, seq,
        bool_and(id = any (taken)) over (partition by topic order by due_at, seq) as is_free
      from timers where id = any (due) and refused_at is null and due_at <= now_at
    ) as timer;
    exit when taken <> '{}';
  end loop;

  for kind in
    select topic, version, array_agg(id order by seq) as ids, array_agg(payload order by seq) as payloads
    from timers
    where id = any (taken) and (
      -- The schema would refuse what an erasure has written over it.
      erased_at is null or not exists (select from catalog_topics where catalog_topics.topic = timers.topic)
    )
    group by 1, 2
  loop
    select * into known from catalog_topics where catalog_topics.topic = kind.topic;
    checked := null;
    if not found then
      select array_agg(n) as places, array_fill(''::text, array[cardinality(kind.ids)]) as paths,
        array_fill('the catalog has no such topic'::text, array[cardinality(kind.ids)]) as problems
      into checked from generate_subscripts(kind.ids, 1) as n;
    elsif known.schemas ? kind.version::text then
      checked := postbud_parse_2(known.schemas -> kind.version::text, kind.payloads);
    end if;
    -- Of a newer version it waits as an event, for a release that can read it.
    continue when coalesce(checked.places, '{}') = '{}';
    with unfit as (
      select kind.ids[n] as unfit_id, string_agg(concat_ws(': ', nullif(path, ''), problem), '; ') as error
      from unnest(checked.places, checked.paths, checked.problems) as problems(n, path, problem) group by 1
    ),
    refused as (
      update timers set refused_at = clock_timestamp() from unfit where id = unfit_id
      returning id, topic, due_at, timer_key, error
    )
    insert into set_aside (at, kind, topic, event_id, found)
    select clock_timestamp(), 'unfit_timer', topic, id, jsonb_build_object('error', error, 'dueAt', due_at, 'timerKey', timer_key)
    from refused order by due_at;
    taken := array(select id from unnest(taken) as id
      where id <> all (array(select kind.ids[n] from unnest(checked.places) as n)));
  end loop;

  -- The first half of the quiet fence (lib/bus/outbox/record.ts): the emitter locks first, then the timestamp.
  perform pg_advisory_xact_lock_shared(36951, lock)
  from (select distinct hashtext(topic) as lock from timers where id = any (taken) order by 1) as topics;
  portion := greatest(1, cardinality(taken));
  while place <= cardinality(taken) loop
    begin
      last_at := greatest(clock_timestamp(), now(), last_at + interval '1 microsecond');
      with timer as (
        delete from timers where id = any (taken[place:place + portion - 1]) returning *
      ),
      event as (
        insert into events (id, topic, payload, version, producer, subscribers, open, ordering_key, dedupe_key,
          correlation_id, causation_id, traceparent, due_at, erased_at, created_at)
        select id, timer.topic, payload, timer.version, timer.producer, coalesce(subscribers, '{}'),
          coalesce(cardinality(subscribers), 0), ordering_key, dedupe_key, correlation_id, causation_id, traceparent,
          due_at, erased_at, last_at + interval '1 microsecond' * (row_number() over (order by due_at, timer.seq) - 1)
        from timer left join catalog_topics on catalog_topics.topic = timer.topic
        order by due_at, timer.seq
        on conflict (topic, dedupe_key) where dedupe_key is not null do nothing
        returning id, topic, created_at, seq, ordering_key, open, subscribers, octet_length(payload::text) as payload_bytes
      ),
      marker as (
        insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, payload_bytes, subscribers)
        select topic, created_at, seq, id, ordering_key, open, payload_bytes, subscribers from event order by created_at
      )
      select count(*) as events, max(created_at) as until into moved from event;
      released := released + moved.events;
      last_at := greatest(last_at, moved.until);
      place := place + portion;
    exception when lock_not_available then
      -- One by one, then without the topics that have to wait.
      if portion = 1 then
        held := held || (select topic from timers where id = taken[place]);
        taken := array(
          select id from timers where id = any (taken[place + 1:]) and topic <> all (held) order by due_at, seq
        );
        place := 1;
      end if;
      portion := 1;
    end;
  end loop;
  select extract(epoch from due_at - coalesce(clock, clock_timestamp())) * 1000 into next_in_ms
  from timers where refused_at is null order by due_at, seq limit 1;
end
$$;
--> statement-breakpoint
-- Records an event that happens later, or moves the topic's timer of the same key. What it is given has been checked.
--
-- Returns the id of the event that it becomes; with a dedupe key that was used before, what that one became. Raises PB002 for
-- a time that is more than a year ahead.
create or replace function postbud_set_timer_1(
  id uuid, topic text, timer_key text, due_at timestamptz, payload jsonb, version smallint, producer text,
  ordering_key text, dedupe_key text, correlation_id text, causation_id text, traceparent text
)
returns uuid language plpgsql as $$
#variable_conflict use_column
declare
  earlier uuid;
begin
  if postbud_set_timer_1.due_at > clock_timestamp() + interval '366 days' then
    perform postbud_refuse_payload_1(postbud_set_timer_1.topic, '{at}', '{expected an instant at most a year ahead}');
  end if;
  if postbud_set_timer_1.dedupe_key is not null then
    select events.id into earlier from events
    where events.topic = postbud_set_timer_1.topic and events.dedupe_key = postbud_set_timer_1.dedupe_key;
    if found then
      return earlier;
    end if;
    insert into timer_dedupe_keys (topic, dedupe_key, timer_id, at)
    values (postbud_set_timer_1.topic, postbud_set_timer_1.dedupe_key, postbud_set_timer_1.id, clock_timestamp())
    on conflict do nothing;
    if not found then
      return (select timer_id from timer_dedupe_keys where timer_dedupe_keys.topic = postbud_set_timer_1.topic
        and timer_dedupe_keys.dedupe_key = postbud_set_timer_1.dedupe_key);
    end if;
  end if;
  -- A release that has the row locked is waited for: then there is none to be moved, and this is another timer.
  insert into timers (id, topic, timer_key, due_at, payload, version, producer, ordering_key, dedupe_key, correlation_id,
    causation_id, traceparent, set_at)
  values (postbud_set_timer_1.id, postbud_set_timer_1.topic, postbud_set_timer_1.timer_key,
    greatest(postbud_set_timer_1.due_at, '1970-01-01 00:00:00Z'), postbud_set_timer_1.payload,
    postbud_set_timer_1.version, postbud_set_timer_1.producer, postbud_set_timer_1.ordering_key,
    postbud_set_timer_1.dedupe_key, postbud_set_timer_1.correlation_id, postbud_set_timer_1.causation_id,
    postbud_set_timer_1.traceparent, clock_timestamp())
  on conflict (timer_key, topic) where timer_key is not null do update set id = excluded.id, due_at = excluded.due_at,
    seq = default, payload = excluded.payload, version = excluded.version, producer = excluded.producer,
    ordering_key = excluded.ordering_key, dedupe_key = excluded.dedupe_key, correlation_id = excluded.correlation_id,
    causation_id = excluded.causation_id, traceparent = excluded.traceparent, set_at = excluded.set_at,
    erased_at = null, refused_at = null;
  if postbud_set_timer_1.timer_key is not null then
    perform postbud_settle_unfit_timer_1(
      postbud_set_timer_1.topic, postbud_set_timer_1.timer_key, 'moved by its producer');
  end if;
  return postbud_set_timer_1.id;
end
$$;
--> statement-breakpoint
-- Records outcomes and lets the lanes go, or keeps them. A lane whose token is no longer the relay's is passed over with
-- all its outcomes; doing it twice changes nothing the second time. The lanes and their homes must be locked.
--
-- Counters that a row changed by hand contradicts stay where they can be: the doctor finds them, and no lane stops for them.
--
-- `delivered_*`: deliveries of a lane with the same times, to the millisecond, and as many replays, are one row with all
-- their positions. `delivered_in_ms` has the durations of all rows, and then how often those of each had been replayed at
-- their claim, as `replays` of `unfinished` says. A delivery that has been replayed since then has another attempt before it:
-- an earlier call has settled this one. A release that does not say has that go unnoticed.
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
  stretches constant int := cardinality(delivered_lanes);
  one postbud_outcome_2;
  is_of_key boolean := false;
  is_waiting boolean := false;
  moved postbud_change_1[];
  is_small boolean := stretches <= 16;
  delivery record;
  -- What this call has recorded, and no earlier one: the lanes that have delivered, and the attempts that say who is there.
  answering bigint[] := '{}';
  presences jsonb;
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
    for number in 1..stretches loop
      is_small := is_small and strpos(delivered_positions[number], ',') = 0;
    end loop;
  end if;
  if is_small and stretches > 0 then
    for delivery in
      update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.in_ms,
        attempted_at = to_timestamp(attempt.at_ms / 1000),
        delivered_at = to_timestamp((attempt.at_ms + attempt.in_ms) / 1000), next_attempt_at = null
      from unnest(delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms, delivered_in_ms[:stretches],
          delivered_in_ms[stretches + 1:])
        as attempt(lane, home, positions, at_ms, in_ms, replays)
      where deliveries.lane_id = attempt.home and deliveries.position = trim(attempt.positions, '{}')::bigint
        and coalesce(deliveries.state in ('pending', 'failing'), false)
        and deliveries.replays = coalesce(attempt.replays, deliveries.replays)
        and (is_all_held or attempt.lane = any (held))
      returning attempt.lane, deliveries.event_id, (deliveries.attempts > 1)::int as was_failing,
        (deliveries.attempts = 1 and deliveries.replays = 0)::int as first_attempt, deliveries.delivered_at
    loop
      delivered := delivered + 1;
      answering := answering || delivery.lane;
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
  elsif stretches > 0 then
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
      array(select postbud_event_moved(topic, was, becomes) from changed_event where was <> becomes),
      array(select lane from lane_change)
    into delivered, changes, moved, answering;
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
          replays int, at timestamptz, duration_ms int, burnt int, next_attempt_at timestamptz, error_group jsonb,
          entry jsonb, halts boolean, presence text, is_probe boolean)
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
          and (is_all_held or attempt.lane = any (held))
          -- Where the lane is kept, an earlier settlement of these outcomes may have recorded it, whose answer was lost. Its
          -- key has had a lane of its own since then, and perhaps later attempts.
          and not coalesce(deliveries.attempt_log @> jsonb_build_array(attempt.entry) and (
            (deliveries.attempt_log -> -1) - 'attempt' = attempt.entry
            or exists (select from lanes as left_to where left_to.home_id = attempt.lane and held_key = lane_key)
          ), false)
        returning attempt.lane, deliveries.position, deliveries.event_id, deliveries.lane_key,
          deliveries.next_attempt_at, attempt.burnt, attempt.error_group,
          attempt.home, attempt.halts, attempt.at, attempt.presence, attempt.is_probe, attempt.entry,
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
          do update set head = least(lanes.head, excluded.head), careful_to = greatest(lanes.careful_to, excluded.careful_to),
            -- Where another relay holds it, it is due at the end of that lease.
            due_at = case when lanes.lease_token is null then excluded.due_at else lanes.due_at end
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
        (select count(*) from settled where dead = 1) as dead_lettered,
        (
          select jsonb_agg(jsonb_build_object('lane', lane, 'home', home, 'position', settled.position, 'entry', entry,
            'presence', presence, 'is_probe', is_probe))
          from settled where presence is not null
        ) as presences
      into counts;
      presences := counts.presences;
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
    perform postbud_record_presence_1(outcomes, held, answering, presences, at);
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
    )
      -- A key that is halted further on waits there: the shared lane knows nothing of it.
      or is_bounded and postbud_front_1(own.topic, own.subscriber, own.home_id, own.held_key) is not null
    then
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
    -- Where the settlement had to wait, all may have looked for relays that died up to then.
    insert into leases values (greatest(kept_until, clock_timestamp()), kept);
  end if;
  -- The key is through: what comes for it next goes to its shared lane again.
  if is_of_key then
    delete from lanes where id = any (held) and home_id is not null and due_at is null;
  end if;
end
$$;
--> statement-breakpoint
-- Records that a timer is no longer set aside, because its producer has moved or cancelled it. A row that an operator is
-- repairing is left to that operator.
create or replace function postbud_settle_unfit_timer_1(topic text, timer_key text, reason text)
returns void language sql as $$
  update set_aside set repaired_at = clock_timestamp(), repaired_by = 'postbud',
    reason = postbud_settle_unfit_timer_1.reason
  where id in (
    select id from set_aside
    where set_aside.topic = postbud_settle_unfit_timer_1.topic and kind = 'unfit_timer' and repaired_at is null
      and found ->> 'timerKey' = timer_key
    for update skip locked
  )
$$;

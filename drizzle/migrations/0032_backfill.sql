-- The position up to which all deliveries of a lane are of events older than `since`. Positions follow the order of
-- creation, so it is found by halving.
create or replace function postbud_position_before_1(lane bigint, since timestamptz) returns bigint
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  older bigint := 0;
  newer bigint := (select tail from lanes where id = lane);
  middle bigint;
  probe record;
begin
  while older < newer loop
    middle := (older + newer) / 2;
    select position, created_at into probe
    from (
      select position, event_id from deliveries where lane_id = lane and position > middle order by position limit 1
    ) as next join events on events.id = event_id;
    if not found or probe.position > newer or probe.created_at >= since then
      newer := middle;
    else
      older := probe.position;
    end if;
  end loop;
  return older;
end
$$;--> statement-breakpoint
-- The lanes that events of a topic are found in: those of its other subscribers. Every event has a delivery in one.
create or replace function postbud_sources_1(of_topic text, but_subscriber text) returns bigint[] language sql stable as $$
  select coalesce(array_agg(id), '{}') from lanes
  where topic = of_topic and subscriber <> but_subscriber and home_id is null
$$;--> statement-breakpoint
-- Prepares the lanes of a backfill's subscription: they are to deliver from its front on. Where a relay still holds one of
-- them this does nothing, since it has claimed newer deliveries and hands them over first. While the row is open, claims
-- give nothing behind the front, so relays let go by themselves.
-- @returns whether the lanes are prepared, now or before.
create or replace function postbud_begin_backfill_1(backfill uuid, at timestamptz) returns boolean language plpgsql as $$
declare
  asked record;
begin
  select * into asked from backfills where id = backfill and ended_at is null for update;
  if not found or asked.begun_at is not null then
    return found;
  end if;
  perform from lanes where topic = asked.topic and subscriber = asked.subscriber order by id for update;
  -- A relay that died lets go here too. It is unknown what it had begun, so what follows is claimed one by one.
  update lanes set lease_token = null, due_at = at, careful_to = greatest(careful_to, tail)
  where topic = asked.topic and subscriber = asked.subscriber and lease_token is not null and due_at <= at;
  if exists (
    select from lanes where topic = asked.topic and subscriber = asked.subscriber and lease_token is not null
  ) then
    return false;
  end if;
  update lanes set head = least(head, asked.front), tail = greatest(tail, asked.until)
  where topic = asked.topic and subscriber = asked.subscriber;
  update backfills set begun_at = at where id = backfill;
  return true;
end
$$;--> statement-breakpoint
-- Writes the next deliveries of a backfill, in order of position, and moves its front behind them.
--
-- It locks no lane, so fan-out and relays go on meanwhile: nobody claims what is behind the front, and all lanes that it
-- writes to are there from the start. Whoever calls it makes the lanes due afterwards. The order of locks is that of
-- lib/deliveries/locks.ts.
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
  has_old_keys boolean;
  moved postbud_change_1[];
begin
  written := 0;
  is_ended := true;
  perform pg_advisory_xact_lock_shared(36953, 0);
  select * into asked from backfills where id = backfill and ended_at is null for update;
  if not found then
    return;
  end if;
  sources := postbud_sources_1(asked.topic, asked.subscriber);
  select array_agg(id), coalesce(bool_or(ordering_key > ''), false) into own, has_old_keys from lanes
  where topic = asked.topic and subscriber = asked.subscriber and home_id is null;
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
      where topic = asked.topic and subscriber = asked.subscriber and held_key = '' and (
        slot = case when key <> '' then postbud_slot(key) end
        or ordering_key = '' and key = '' or has_old_keys and ordering_key = key
      )
      -- A key that release 0.2 has made a lane for stays in it.
      order by ordering_key desc nulls last limit 1
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
    perform postbud_count_1(
      moved || row(asked.topic, asked.subscriber, written, 0, 0, 0, 0, 0, null, null)::postbud_change_1, at);
  end if;
  is_ended := new_front >= asked.until;
  update backfills set front = new_front, written = backfills.written + postbud_backfill_1.written,
    next_at = case when per_minute is null then at
      -- What it was late for is caught up, but not more than ten seconds of it.
      else greatest(next_at, at - interval '10 seconds')
        + postbud_backfill_1.written * interval '1 minute' / per_minute end,
    ended_at = case when is_ended then at end
  where id = backfill;
end
$$;

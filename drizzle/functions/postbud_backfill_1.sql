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
    -- Where nothing was written, the others have their turns first.
    next_at = case when per_minute is null or postbud_backfill_1.written = 0 then at
      -- What it was late for is caught up, but not more than ten seconds of it.
      else greatest(next_at, at - interval '10 seconds')
        + postbud_backfill_1.written * interval '1 minute' / per_minute end
  where id = backfill;
end
$$;

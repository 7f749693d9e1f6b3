-- Takes back the times that only a clock which was ahead explains: due times of lanes and their deliveries, of probes and
-- of operations under way, and the times of events that wait for fan-out. What waits by the right clock is left alone.
--
-- What timers were released too early can't be taken back: it is counted.
--
-- Returns what it took back, and keeps it in set_aside; null when no clock was ahead. Runs that began before the clock
-- stepped back write such times until they end: what follows within minutes is added to the row, as one case to repair.
create or replace function postbud_take_back_times_1() returns jsonb language plpgsql as $$
declare
  now_at timestamptz;
  passed_at timestamptz;
  taken jsonb;
  events_taken int;
  lanes_taken int;
  released_early int;
  known set_aside;
  found_in_all jsonb;
begin
  perform postbud_require_read_committed_1();
  perform pg_advisory_xact_lock(36952, 0);
  now_at := clock_timestamp();
  select at into passed_at from last_pass limit 1;
  -- Nobody holds a lane for longer than the longest lease, and a retry is due so long after its attempt ended.
  perform from lanes
  where due_at > now_at + interval '10 seconds' and due_at < 'infinity' or leased_until > now_at + interval '10 seconds'
  order by id for update;
  with ahead as materialized (
    select * from (
      select id, home_id, slot, held_key, head, lease_token,
        coalesce(due_at, case when lease_token is not null then leased_until end) as due_at
      from lanes
    ) as lane where due_at > now_at + interval '10 seconds' and due_at < 'infinity'
  ),
  head as materialized (
    select ahead.id, coalesce(home_id, ahead.id) as home, due_at, lease_token, next.*,
      greatest(attempted_at - now_at, interval '0') as ahead_by
    from ahead left join lateral (
      select next.position, next.next_attempt_at, deliveries.attempted_at
      from postbud_next_2(ahead.id, home_id, slot, held_key, ahead.head, 1) as next
        join deliveries on deliveries.lane_id = coalesce(home_id, ahead.id) and deliveries.position = next.position
    ) as next on true
  ),
  right_time as (
    select id, home, position, ahead_by, due_at as was_due_at, case
      when lease_token is not null then least(due_at, now_at + interval '80 seconds')
      else least(due_at, coalesce(next_attempt_at - ahead_by, now_at))
    end as due_at
    from head
  ),
  delivery as (
    update deliveries set next_attempt_at = deliveries.next_attempt_at - ahead_by
    from right_time
    where lane_id = home and deliveries.position = right_time.position and ahead_by > interval '1 second'
      and deliveries.next_attempt_at is not null
  ),
  lane as (
    update lanes set due_at = case when lanes.due_at is not null then right_time.due_at end,
      leased_until = case when lanes.lease_token is not null then right_time.due_at end
    from right_time where lanes.id = right_time.id and was_due_at > right_time.due_at
    returning 1
  )
  select count(*) into lanes_taken from lane;
  -- An event that waits for fan-out is recorded now: those that were recorded since come before it, as they were.
  with ahead as materialized (
    select ctid as id, event_id from awaiting_fan_out where created_at > now_at + interval '10 seconds'
  ),
  event as (
    update events set created_at = now_at from ahead where events.id = ahead.event_id
  ),
  marker as (
    update awaiting_fan_out set created_at = now_at where ctid = any (array(select id from ahead)) returning 1
  )
  select count(*) into events_taken from marker;
  update outages set next_probe_at = least(next_probe_at, now_at + interval '1 minute')
  where greatest(opened_at, probed_at) > now_at;
  -- Paces and patience: a step that comes early does no harm.
  update paced_replays set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update backfills set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update erasures set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update last_pass set at = now_at where at > now_at;
  update leases set until = now_at + interval '80 seconds' where until > now_at + interval '80 seconds';
  if not (passed_at > now_at + interval '10 seconds') and events_taken = 0 and lanes_taken = 0 then
    return null;
  end if;
  -- An event of a timer has an id of the time when it was due.
  select count(*) into released_early from events
  where due_at > now_at + interval '10 seconds'
    and id >= (lpad(to_hex((extract(epoch from now_at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
  taken := jsonb_build_object('aheadBySeconds', extract(epoch from passed_at - now_at)::int, 'events', events_taken,
    'lanes', lanes_taken, 'timersReleasedEarly', released_early);
  select * into known from set_aside
  where topic = '' and kind = 'clock_was_ahead' and repaired_at is null and at > now_at - interval '10 minutes'
  order by id desc limit 1 for update;
  -- Each call counts anew all timers that were released early.
  released_early := greatest(released_early, (known.found ->> 'timersReleasedEarly')::int);
  found_in_all := jsonb_build_object(
    'aheadBySeconds', greatest((known.found ->> 'aheadBySeconds')::int, (taken ->> 'aheadBySeconds')::int),
    'events', coalesce((known.found ->> 'events')::int, 0) + events_taken,
    'lanes', coalesce((known.found ->> 'lanes')::int, 0) + lanes_taken,
    'timersReleasedEarly', released_early
  ) || case
    when released_early = 1 then '{"error": "1 timer was released before its time"}'
    when released_early > 1 then jsonb_build_object('error', released_early || ' timers were released before their time')
    else '{}'
  end;
  if known.id is null then
    insert into set_aside (at, kind, topic, found) values (now_at, 'clock_was_ahead', '', found_in_all);
  else
    update set_aside set found = found_in_all where id = known.id;
  end if;
  return taken;
end
$$;

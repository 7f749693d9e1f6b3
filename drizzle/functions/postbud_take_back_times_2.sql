-- Takes back the times that only a clock which was ahead explains: of leases, retries and probes, of operations under way, and of events
-- that wait for their places. What waits by the right clock is left alone.
--
-- What timers were released too early can't be taken back: it is counted.
--
-- Returns what it took back, and keeps it in set_aside; null when no clock was ahead. Runs that began before the clock stepped back write
-- such times until they end: what follows within minutes is added to the row, as one case to repair.
create or replace function postbud_take_back_times_2() returns jsonb language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  passed_at timestamptz;
  ahead int[];
  events_taken int;
  lanes_taken int;
  retries_taken int;
  released_early int;
  known set_aside;
  taken jsonb;
  found_in_all jsonb;
begin
  perform postbud_require_read_committed_1();
  perform pg_advisory_xact_lock(36952, lock) from (select distinct hashtext(topic) as lock from awaiting order by 1) as topics;
  now_at := clock_timestamp();
  select at into passed_at from last_pass limit 1;
  ahead := array(
    select lanes.id from lanes, lateral (
      select leased_until from journal where lane = lanes.id order by head desc, number desc limit 1
    ) as newest
    -- Nobody holds a lane for longer than the longest lease.
    where newest.leased_until > now_at + interval '80 seconds'
      or exists (select from exceptions where lane = lanes.id and due_at > now_at and attempted_at > now_at + interval '1 second')
  );
  perform postbud_lock_lanes_2(ahead);
  update journal set leased_until = now_at + interval '80 seconds'
  from unnest(ahead) as of_lane(id), lateral (
    select head, number from journal where journal.lane = of_lane.id order by head desc, number desc limit 1
  ) as newest
  where journal.lane = of_lane.id and journal.head = newest.head and journal.number = newest.number
    and leased_until > now_at + interval '80 seconds';
  get diagnostics lanes_taken = row_count;
  -- A retry is due so long after its attempt ended.
  update exceptions set next_attempt_at = next_attempt_at - (attempted_at - now_at),
    due_at = case when due_at is not null then next_attempt_at - (attempted_at - now_at) end
  where lane = any (ahead) and is_open and attempted_at > now_at + interval '1 second' and next_attempt_at > now_at;
  get diagnostics retries_taken = row_count;
  -- An event that waits for its place is recorded now: those that were recorded since come before it, as they were.
  with late as materialized (
    select ctid as id, event_id from awaiting where created_at > now_at + interval '10 seconds'
  ),
  event as (
    update events set created_at = now_at from late where events.id = late.event_id
  ),
  marker as (
    update awaiting set created_at = now_at where ctid = any (array(select id from late)) returning 1
  )
  select count(*) into events_taken from marker;
  update outages set next_probe_at = least(next_probe_at, now_at + interval '1 minute')
  where greatest(opened_at, probed_at) > now_at;
  -- Paces and patience: a step that comes early does no harm.
  update paced_replays set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update backfills set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update erasures set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update last_pass set at = now_at where at > now_at;
  if not coalesce(passed_at > now_at + interval '10 seconds', false) and events_taken + lanes_taken + retries_taken = 0 then
    return null;
  end if;
  -- An event of a timer has an id of the time when it was due.
  select count(*) into released_early from events
  where due_at > now_at + interval '10 seconds'
    and id >= (lpad(to_hex((extract(epoch from now_at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
  taken := jsonb_build_object('aheadBySeconds', extract(epoch from passed_at - now_at)::int, 'events', events_taken,
    'lanes', lanes_taken + retries_taken, 'timersReleasedEarly', released_early);
  select * into known from set_aside
  where topic = '' and kind = 'clock_was_ahead' and repaired_at is null and at > now_at - interval '10 minutes'
  order by id desc limit 1 for update;
  -- Each call counts anew all timers that were released early.
  released_early := greatest(released_early, (known.found ->> 'timersReleasedEarly')::int);
  found_in_all := jsonb_build_object(
    'aheadBySeconds', greatest((known.found ->> 'aheadBySeconds')::int, (taken ->> 'aheadBySeconds')::int),
    'events', coalesce((known.found ->> 'events')::int, 0) + events_taken,
    'lanes', coalesce((known.found ->> 'lanes')::int, 0) + lanes_taken + retries_taken,
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

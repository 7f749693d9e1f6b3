-- Gives the events of a topic their places, in (created_at, seq) order, as far as the order is certain, and lanes to subscribers
-- that are new in a stream.
--
-- The quiet fence. `emit` takes a shared lock on its topic before it reads the clock. So an event created before `certain_until` belongs to a
-- transaction that is visible to the statement after the one that tries that lock, or that held the lock then. And a transaction
-- has no event from before it began: where producers are at work, what is older than the oldest of them is certain all the same.
-- Of one whose beginning is not visible (a prepared one, another role's) the topic waits for the end. Where the clock steps back
-- after that, later transactions have events from before it too: their markers have later numbers, and wait for the next call.
--
-- One relay at a time places the events of a topic. `bound`: whatever was created before it has its place, so that what is dead
-- stands before it in the index and is not read. With `is_careful` each event is placed by itself, and one that cannot be is set
-- aside: a row that should not exist stops nothing but itself.
create or replace function postbud_place_3(
  of_topic text, bound timestamptz, max_events int, is_careful boolean,
  out events int,
  -- Those that have become longer.
  out streams int[],
  out next_bound timestamptz,
  -- Whether some wait: for a producer's transaction, or for the next call.
  out is_awaited boolean
) language plpgsql as $$
#variable_conflict use_column
declare
  topic_lock constant int := hashtext(of_topic);
  number_now bigint;
  certain_until timestamptz;
  began timestamptz;
  late timestamptz;
  is_quiet boolean;
  placed record;
  newcomers json;
begin
  if not pg_try_advisory_xact_lock(36952, topic_lock) then
    perform pg_advisory_xact_lock(36952, topic_lock);
  end if;
  number_now := coalesce(pg_sequence_last_value('awaiting_number_seq'), 9223372036854775807);
  certain_until := clock_timestamp();
  if certain_until < bound then
    -- The clock has stepped back.
    bound := '-infinity';
  end if;
  is_quiet := pg_try_advisory_lock(36951, topic_lock) and pg_advisory_unlock(36951, topic_lock);
  if not is_quiet then
    select case when count(*) = count(began_at) then min(began_at) else '-infinity' end into began
    from (
      select case when pid is not null then (select xact_start from pg_stat_get_activity(pid)) end as began_at
      from pg_locks
      where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = 36951 and objsubid = 2
        and objid = (topic_lock::bigint & 4294967295)::oid
        and database = (select oid from pg_database where datname = current_database())
    ) as holder;
    certain_until := least(certain_until, began);
  end if;
  if pg_sequence_last_value('awaiting_number_seq') > number_now then
    -- An emitter may have read the clock before another and drawn its number after it: where that look fell between the two, what
    -- comes behind the later number waits with it.
    select min(created_at) into late from awaiting
    where topic = of_topic and created_at >= bound and created_at < certain_until and number > number_now;
    certain_until := least(certain_until, late);
    is_quiet := is_quiet and late is null;
  end if;
  if is_careful then
    events := 0;
    streams := '{}';
    loop
      begin
        placed := postbud_place_3(of_topic, '-infinity', 1, false);
        exit when placed.events = 0;
        events := events + 1;
        streams := streams || placed.streams;
      exception
        -- A statement that is cancelled, and a lock that somebody else holds, say nothing about the row.
        when serialization_failure or deadlock_detected or lock_not_available or query_canceled then
          raise;
        when others then
          with unfit as (
            delete from awaiting where ctid = (
              select ctid from awaiting where topic = of_topic and number <= number_now order by created_at, seq limit 1
            ) returning *
          )
          insert into set_aside (at, kind, topic, event_id, found)
          select clock_timestamp(), 'unfit_marker', topic, event_id,
            to_jsonb(unfit) || jsonb_build_object('error', sqlerrm, 'code', sqlstate)
          from unfit;
      end;
    end loop;
    next_bound := '-infinity';
    is_awaited := not is_quiet;
    return;
  end if;
  with ready as materialized (
    delete from awaiting where ctid = any (array(
      select ctid from awaiting
      where topic = of_topic and created_at >= bound and created_at < certain_until and number <= number_now
      order by created_at, seq limit max_events
    )) returning *, case when ordering_key = '' then 0 else postbud_slot(ordering_key) end as slot
  ),
  wanted as materialized (
    select distinct slot from ready
  ),
  made as (
    insert into streams (topic, slot)
    select of_topic, slot from wanted
    where not exists (select from streams as known where known.topic = of_topic and known.slot = wanted.slot)
    returning id, slot
  ),
  stream as materialized (
    select known.id, slot, coalesce((
        select position from log where log.stream = known.id order by position desc limit 1
      ), 0) as tail, (
        select subscribers from audiences where audiences.stream = known.id order by position desc limit 1
      ) as subscribers
    from wanted join streams as known using (slot) where known.topic = of_topic
    union all
    select id, slot, 0, null from made
  ),
  place as materialized (
    select stream.id as stream, stream.tail + row_number() over in_order as position, event_id, ordering_key, version, bytes,
      ready.subscribers, lag(ready.subscribers, 1, stream.subscribers) over in_order as before, created_at
    from ready join stream using (slot)
    window in_order as (partition by stream.id order by created_at, seq)
  ),
  written as (
    insert into log (position, event_id, stream, bytes, version, ordering_key)
    select position, event_id, stream, bytes, version, ordering_key from place order by stream, position
  ),
  audience as (
    insert into audiences
    select stream, position, subscribers from place where subscribers is distinct from before
  )
  select count(*), array(select id from stream), max(created_at), (
    select json_agg(json_build_object('stream', stream, 'slot', slot, 'name', name, 'head', first - 1))
    from (
      select stream, slot, name, min(position) as first from (
        select stream.id as stream, slot, place.subscribers, min(position) as position
        from place join stream on stream.id = place.stream group by 1, 2, 3
      ) as named, unnest(named.subscribers) as name
      where not exists (select from lanes where lanes.stream = named.stream and lanes.subscriber = name)
      group by 1, 2, 3
    ) as newcomer
  ) into events, streams, next_bound, newcomers from place;
  if newcomers is not null then
    with newcomer as materialized (
      select * from json_to_recordset(newcomers) as newcomer(stream int, slot smallint, name text, head bigint)
    ),
    lane as (
      insert into lanes (stream, topic, slot, subscriber) select stream, of_topic, slot, name from newcomer
      returning id, stream, subscriber
    )
    insert into journal (lane, number, head, at)
    select lane.id, 0, newcomer.head, clock_timestamp()
    from lane join newcomer on newcomer.stream = lane.stream and newcomer.name = lane.subscriber;
  end if;
  if events < max_events then
    next_bound := greatest(bound, certain_until);
  end if;
  -- A clock in milliseconds may not have moved on since an event was created.
  is_awaited := events = max_events or exists (
    select from awaiting
    where topic = of_topic and created_at >= next_bound and (not is_quiet or created_at = certain_until) limit 1
  );
end
$$;

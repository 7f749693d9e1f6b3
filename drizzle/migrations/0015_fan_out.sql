-- The lanes that take events of a topic for subscribers, made where there are none yet: that of the topic without a slot,
-- else the shared one. A key that release 0.2 has made a lane for stays in it.
create or replace function postbud_lanes_1(
  for_topic text, subscribers text[], for_slot smallint, old_key text, newest bigint
) returns bigint[] language plpgsql as $$
declare
  old_ids bigint[] := '{}';
  ids bigint[];
begin
  if old_key is not null then
    select coalesce(array_agg(id), '{}'), array(
      select unnest(subscribers) except select unnest(array_agg(subscriber))
    ) into old_ids, subscribers
    from lanes where topic = for_topic and subscriber = any (subscribers) and ordering_key = old_key;
  end if;
  for attempt in 1..2 loop
    if for_slot is null then
      select coalesce(array_agg(id), '{}') into ids
      from lanes where topic = for_topic and subscriber = any (subscribers) and ordering_key = '';
    else
      select coalesce(array_agg(id), '{}') into ids
      from lanes where topic = for_topic and subscriber = any (subscribers) and slot = for_slot and held_key = '';
    end if;
    exit when cardinality(ids) = cardinality(subscribers);
    insert into lanes (topic, subscriber, ordering_key, slot, needed_version, tail)
    select for_topic, subscriber, case when for_slot is null then '' end, for_slot,
      case when for_slot is not null then 32767 end, newest
    from unnest(subscribers) as subscriber order by subscriber
    on conflict do nothing;
  end loop;
  return old_ids || ids;
end
$$;--> statement-breakpoint
-- Fans out: writes one delivery for each subscriber that an event names, for the events whose place in the order is
-- certain, in (created_at, seq) order. The lanes are not touched: the caller lengthens them, since it locks all that it
-- changes together.
--
-- `emit` takes a shared lock on its topic before it reads the clock. So an event created before `at` belongs to a
-- transaction that is visible to the statements after the one that reads the locks, or that held its lock then. One
-- fan-out at a time, so that positions are drawn in the order of their commits. While another one runs, this waits for it
-- if it may: whoever holds no other lock. Else it does nothing.
--
-- `fence` says of each lock which transactions must end before the events of a moment may be fanned out: it waits for
-- exactly those, not for silence, for a topic with a new emitter at every look is never quiet. What comes back as `fence`
-- goes into the next call.
create or replace function postbud_fan_out_1(
  inout fence jsonb,
  may_wait boolean,
  out at timestamptz,
  out events int,
  -- Whether there are events that do not say whom they are for: releases up to 0.1 wrote them.
  out has_unaddressed boolean,
  -- The lanes to be lengthened, up to where, and since when they are due.
  out lanes bigint[],
  out tails bigint[],
  out firsts timestamptz[],
  out changes postbud_change_1[]
) language plpgsql as $$
declare
  holders jsonb;
  topics text[];
  untils timestamptz[];
  by_slot text[];
  batch record;
  ids bigint[];
begin
  events := 0;
  if may_wait then
    perform pg_advisory_xact_lock(36952, 0);
  elsif not pg_try_advisory_xact_lock(36952, 0) then
    return;
  end if;
  at := clock_timestamp();
  select jsonb_object_agg(lock, transactions) into holders
  from (
    select objid::text as lock, jsonb_agg(virtualtransaction) as transactions from pg_locks
    where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = 36951 and objsubid = 2
      and database = (select oid from pg_database where datname = current_database())
    group by objid
  ) as held;
  -- From each topic to the next: few wait, and to ask for all of them costs more than to fan out one event.
  with recursive awaiting as (
    (select topic from awaiting_fan_out order by topic limit 1)
    union all
    select (
      select next.topic from awaiting_fan_out as next where next.topic > awaiting.topic order by next.topic limit 1
    )
    from awaiting where awaiting.topic is not null
  )
  -- Another order each time, so that under a flood no topic is always last.
  select array_agg(topic order by random()) into topics from awaiting where topic is not null;
  -- Another fan-out has just taken what there was.
  if topics is null then
    return;
  end if;
  if holders is null then
    fence := null;
    untils := array_fill(at, array[cardinality(topics)]);
  else
    select array_agg(
      case
        when holder is null then at
        when memory is not null and not memory -> 'transactions' ?| array(select jsonb_array_elements_text(holder))
          then (memory ->> 'at')::timestamptz
      end order by turn
    ) into untils
    from (
      select turn, holders -> lock as holder, fence -> lock as memory
      from unnest(topics) with ordinality as awaiting(topic, turn),
        lateral (select (hashtext(topic)::bigint & 4294967295)::text as lock) as named
    ) as known;
    select jsonb_object_agg(lock, case
      when fence -> lock is not null and fence -> lock -> 'transactions' ?| array(select jsonb_array_elements_text(holder))
        then fence -> lock
      else jsonb_build_object('at', at, 'transactions', holder)
    end) into fence
    from jsonb_each(holders) as held(lock, holder);
  end if;
  has_unaddressed := exists (select from awaiting_fan_out where subscribers is null);
  if has_unaddressed then
    -- Nothing overtakes an event that does not say whom it is for.
    select array_agg(case when until is not null then least(until, (
      select created_at from awaiting_fan_out as unaddressed
      where unaddressed.topic = awaiting.topic and subscribers is null order by created_at limit 1
    )) end order by turn) into untils
    from unnest(topics, untils) with ordinality as awaiting(topic, until, turn);
  end if;
  -- Where release 0.2 has made lanes of keys, each key is looked up by itself.
  select coalesce(array_agg(topic), '{}') into by_slot from unnest(topics) as awaiting(topic)
  where not exists (select from lanes as old where old.topic = awaiting.topic and old.ordering_key > '');
  for batch in
    with next as materialized (
      -- Each topic in its own order; between topics there is none, so that nothing need be sorted or read in vain.
      select waiting.id
      from unnest(topics, untils) as ready(topic, until), lateral (
        select ctid as id from awaiting_fan_out
        where awaiting_fan_out.topic = ready.topic and created_at < ready.until
        order by created_at, seq limit 3000
      ) as waiting
      limit 3000
    ),
    picked as (
      -- By address, not by a join, which would read all that waits.
      delete from awaiting_fan_out where ctid = any (array(select id from next)) returning awaiting_fan_out.*
    ),
    placed as (
      select *, nextval('delivery_positions') as position
      from (select * from picked order by created_at, seq) as in_order
    )
    select topic, slot, old_key, subscribers, array_agg(position order by position) as positions,
      array_agg(event_id order by position) as event_ids,
      array_agg(nullif(ordering_key, '') order by position) as keys,
      array_agg(payload_bytes order by position) as bytes, max(position) as tail, min(created_at) as first_at
    from placed, lateral (
      select case when ordering_key <> '' then postbud_slot(ordering_key) end as slot,
        case when ordering_key <> '' and not topic = any (by_slot) then ordering_key end as old_key
    ) as addressed
    group by topic, slot, old_key, subscribers
  loop
    events := events + cardinality(batch.positions);
    ids := postbud_lanes_1(batch.topic, batch.subscribers, batch.slot, batch.old_key, batch.tail);
    insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key)
    select lane.id, position, event_id, payload_bytes, case when lane.is_shared then ordering_key end
    from (
      select id, slot is not null as is_shared from lanes as lane where id = any (ids)
    ) as lane, unnest(batch.positions, batch.event_ids, batch.bytes, batch.keys)
      as placed(position, event_id, payload_bytes, ordering_key);
    lanes := lanes || ids;
    tails := tails || array_fill(batch.tail, array[cardinality(ids)]);
    firsts := firsts || array_fill(batch.first_at, array[cardinality(ids)]);
    changes := changes || array(
      select row(batch.topic, subscriber, cardinality(batch.positions), 0, 0, 0, 0, 0, null, null)::postbud_change_1
      from unnest(batch.subscribers || ''::text) as subscriber
    );
  end loop;
end
$$;

-- The lanes that take events of a topic for subscribers, made where there are none yet: that of the topic without a slot,
-- else the shared one.
--
-- Of a lane that changes with each event an index has an entry for each page of its versions, and beside an old snapshot all
-- of them stay. Its newest version has the last entry: so the entries are read from their end, here and wherever a turn
-- finds a lane. An equality would be read from the beginning, whatever order is asked for.
create or replace function postbud_lanes_2(
  for_topic text, subscribers text[], for_slot smallint, newest bigint
) returns bigint[] language plpgsql as $$
declare
  ids bigint[];
begin
  for attempt in 1..2 loop
    if for_slot is null then
      select array_agg(lane.id) into ids
      from unnest(subscribers) as wanted(subscriber), lateral (
        select id from lanes
        where (topic, lanes.subscriber, ordering_key) >= (for_topic, wanted.subscriber, '')
          and (topic, lanes.subscriber, ordering_key) <= (for_topic, wanted.subscriber, '')
        order by topic desc, lanes.subscriber desc, ordering_key desc limit 1
      ) as lane;
    else
      select array_agg(lane.id) into ids
      from unnest(subscribers) as wanted(subscriber), lateral (
        select id from lanes
        where (topic, lanes.subscriber, slot, held_key) >= (for_topic, wanted.subscriber, for_slot, '')
          and (topic, lanes.subscriber, slot, held_key) <= (for_topic, wanted.subscriber, for_slot, '')
          and slot is not null
        order by topic desc, lanes.subscriber desc, slot desc, held_key desc limit 1
      ) as lane;
    end if;
    exit when coalesce(cardinality(ids), 0) = cardinality(subscribers);
    insert into lanes (topic, subscriber, ordering_key, slot, tail)
    select for_topic, subscriber, case when for_slot is null then '' end, for_slot, newest
    from unnest(subscribers) as subscriber order by subscriber
    on conflict do nothing;
  end loop;
  return coalesce(ids, '{}');
end
$$;

-- The lanes that take events of a topic for subscribers, made where there are none yet: that of the topic without a slot,
-- else the shared one.
create or replace function postbud_lanes_2(
  for_topic text, subscribers text[], for_slot smallint, newest bigint
) returns bigint[] language plpgsql as $$
declare
  ids bigint[];
begin
  for attempt in 1..2 loop
    select array_agg(lane_id) into ids from home_lanes
    where topic = for_topic and subscriber = any (subscribers) and slot = coalesce(for_slot, 0);
    exit when coalesce(cardinality(ids), 0) = cardinality(subscribers);
    with made as (
      insert into home_lanes (topic, subscriber, slot, lane_id)
      select for_topic, subscriber, coalesce(for_slot, 0), nextval(pg_get_serial_sequence('lanes', 'id'))
      from unnest(subscribers) as subscriber order by subscriber
      on conflict do nothing returning subscriber, lane_id
    )
    insert into lanes (id, topic, subscriber, ordering_key, slot, tail) overriding system value
    select lane_id, for_topic, subscriber, case when for_slot is null then '' end, for_slot, newest from made;
  end loop;
  return coalesce(ids, '{}');
end
$$;

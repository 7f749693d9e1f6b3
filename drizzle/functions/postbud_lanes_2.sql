-- The lanes that take events of a topic for subscribers, made where there are none yet: that of the topic without a slot,
-- else the shared one.
create or replace function postbud_lanes_2(
  for_topic text, subscribers text[], for_slot smallint, newest bigint
) returns bigint[] language plpgsql as $$
declare
  ids bigint[];
begin
  for attempt in 1..9 loop
    select array_agg(lane_id) into ids from home_lanes
    where topic = for_topic and subscriber = any (subscribers) and slot = coalesce(for_slot, 0);
    if coalesce(cardinality(ids), 0) = cardinality(subscribers) then
      return coalesce(ids, '{}');
    end if;
    begin
      with made as (
        insert into lanes (topic, subscriber, ordering_key, slot, tail)
        select for_topic, subscriber, case when for_slot is null then '' end, for_slot, newest
        from unnest(subscribers) as subscriber
        where not exists (
          select from home_lanes
          where topic = for_topic and home_lanes.subscriber = subscriber.subscriber and slot = coalesce(for_slot, 0)
        )
        order by subscriber returning id, subscriber
      )
      insert into home_lanes (topic, subscriber, slot, lane_id)
      select for_topic, subscriber, coalesce(for_slot, 0), id from made order by subscriber;
    exception when unique_violation then
      -- Another transaction has made one meanwhile, and has committed it: the next attempt finds it.
      null;
    end;
  end loop;
  raise exception 'the lanes of % for % could not be made', for_topic, subscribers;
end
$$;

-- What each lane has to deliver. Deliveries of events that wait for their places are not included; dismissed dead letters are
-- delivered to nobody and counted nowhere, and neither are smoke tests. `exceptional`: the places up to its head whose deliveries
-- are open or dead letters.
create or replace view states_of_lanes as
  select lane.id as lane, lane.stream, lane.topic, lane.subscriber, lane.head, lane.tail,
    coalesce(waiting.places, 0) - coalesce(halted.places, 0) + coalesce(dead.places, 0) as exceptional,
    beyond.places + coalesce(waiting.places, 0) - coalesce(halted.places, 0) - coalesce(failed.places, 0) as pending,
    coalesce(failed.places, 0) as failing, coalesce(halted.keys, 0) as halted, coalesce(dead.places, 0) as dead_lettered
  from lane_heads as lane
    -- Each reads an index alone, and no row of the table.
    left join (
      select lane, count(*) as places from exceptions where is_open group by lane
    ) as waiting on waiting.lane = lane.id
    left join (
      select lane, count(*) as places from exceptions where is_open and state = 'failing' group by lane
    ) as failed on failed.lane = lane.id
    left join (
      -- Of a key more than one may be dead: an operator has replayed one before another.
      select lane, count(*) as keys, sum(places)::bigint as places from (
        select lane, count(*) as places from exceptions where is_open and state = 'dead_lettered' group by lane, ordering_key
      ) as key group by lane
    ) as halted on halted.lane = lane.id
    left join (
      select lane, count(*) as places from exceptions where dead_lettered_at is not null group by lane
    ) as dead on dead.lane = lane.id
    cross join lateral (
      select case when lane.tail > lane.head then postbud_beyond_head_1(lane.stream, lane.subscriber, lane.head, lane.tail) else 0 end as places
    ) as beyond
  where lane.topic <> 'system.smoke_test.started';

-- What each subscription has to deliver, and has delivered: the numbers that every page shows. Deliveries of events that wait for
-- their places are not among them; dismissed dead letters are delivered to nobody and counted nowhere, and neither are smoke tests.
create or replace view subscription_counts as
  select lane.topic, lane.subscriber, sum(beyond.places + coalesce(waiting.pending, 0))::bigint as pending,
    sum(coalesce(waiting.failing, 0))::bigint as failing, sum(coalesce(halted.keys, 0))::bigint as halted,
    sum(coalesce(dead.letters, 0))::bigint as dead_lettered, sum(outcomes.delivered)::bigint as delivered_total,
    sum(outcomes.failed)::bigint as failed_total, sum(outcomes.dead_lettered)::bigint as dead_lettered_total,
    max(outcomes.last_delivered_at) as last_delivered_at, max(outcomes.last_failed_at) as last_failed_at
  from lane_heads as lane
    join lane_outcomes as outcomes on outcomes.lane = lane.id
    left join (
      -- Each part reads an index alone, and no row of the table.
      select lane, sum(open - blocking) as pending, sum(failing) as failing from (
        select lane, 1 as open, 0 as blocking, 0 as failing from exceptions where is_open
        union all
        select lane, 0, 1, (state = 'failing')::int from exceptions where is_open and state in ('failing', 'dead_lettered')
      ) as part group by lane
    ) as waiting on waiting.lane = lane.id
    left join (
      select lane, count(*) as letters from exceptions where dead_lettered_at is not null group by lane
    ) as dead on dead.lane = lane.id
    left join (
      -- Of a key more than one may be dead: an operator has replayed one before another.
      select lane, count(*) as keys from (
        select distinct lane, ordering_key from exceptions where is_open and state = 'dead_lettered'
      ) as key group by lane
    ) as halted on halted.lane = lane.id
    cross join lateral (
      select case when lane.tail > lane.head then postbud_beyond_head_1(lane.stream, lane.subscriber, lane.head, lane.tail) else 0 end as places
    ) as beyond
  where lane.topic <> 'system.smoke_test.started'
  group by lane.topic, lane.subscriber;

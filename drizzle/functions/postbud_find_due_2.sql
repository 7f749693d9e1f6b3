-- Finds due lanes of these subscriptions (topic and subscriber). Those that were served longest ago come first.
create or replace function postbud_find_due_2(names text[], waits boolean[], max_lanes int, now_at timestamptz) returns int[]
language sql as $$
  select array_agg(id)
  from (
    select lane.id
    from unnest(names, waits) as asked(name, waits), lateral (
        select * from postbud_due_lanes_1(now_at, null)
        where topic = split_part(name, ' ', 1) and subscriber = split_part(name, ' ', 2) offset 0
      ) as lane
    where not (asked.waits and exists (select from outages where outages.subscriber = lane.subscriber))
    order by lane.at limit max_lanes
  ) as due
$$;

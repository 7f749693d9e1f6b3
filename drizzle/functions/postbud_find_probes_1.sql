-- Finds, for each of these subscriptions' subscribers that does not answer and is to be probed, a due lane.
create or replace function postbud_find_probes_1(names text[], waits boolean[], now_at timestamptz) returns int[]
language sql as $$
  select array_agg(id)
  from (
    select distinct on (lane.subscriber) lane.id
    from unnest(names, waits) as asked(name, waits)
      join outages on outages.subscriber = split_part(name, ' ', 2) and next_probe_at <= now_at
      join postbud_due_lanes_1(now_at, null) as lane on lane.topic = split_part(name, ' ', 1) and lane.subscriber = outages.subscriber
    where asked.waits
    order by lane.subscriber, lane.at
  ) as probe
$$;

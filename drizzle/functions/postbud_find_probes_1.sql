-- Finds, for each of these subscriptions' subscribers that does not answer and is to be probed, a lane that has something to hand
-- over.
create or replace function postbud_find_probes_1(names text[], waits boolean[], now_at timestamptz) returns int[]
language sql as $$
  select array_agg(id)
  from (
    select distinct on (lane.subscriber) lane.id
    from unnest(names, waits) as asked(name, waits)
      join outages on outages.subscriber = split_part(name, ' ', 2) and next_probe_at <= now_at
      join lanes as lane on lane.topic = split_part(name, ' ', 1) and lane.subscriber = outages.subscriber, lateral (
        select at, head, leased_until from journal where journal.lane = lane.id order by head desc, number desc limit 1
      ) as newest
    where asked.waits and (newest.leased_until is null or newest.leased_until <= now_at)
      and (
        exists (select from exceptions where exceptions.lane = lane.id and due_at <= now_at limit 1)
        or (select position from log where log.stream = lane.stream order by position desc limit 1) > newest.head
          and (lane.slot > 0 or not exists (select from exceptions where exceptions.lane = lane.id and is_open limit 1))
          and not exists (
            select from backfills
            where backfills.topic = lane.topic and backfills.subscriber = lane.subscriber and ended_at is null
          )
      )
      and not exists (select from pauses where pauses.subscriber = lane.subscriber and pauses.topic in ('', lane.topic))
    order by lane.subscriber, newest.at
  ) as probe
$$;

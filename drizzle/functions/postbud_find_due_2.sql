-- Finds lanes of these subscriptions (topic and subscriber) that have something to hand over and are free, or whose relay died. Those
-- that were served longest ago come first.
create or replace function postbud_find_due_2(names text[], waits boolean[], max_lanes int, now_at timestamptz) returns int[]
language sql as $$
  select array_agg(id)
  from (
    select lane.id
    from unnest(names, waits) as asked(name, waits)
      join lanes as lane on lane.topic = split_part(name, ' ', 1) and lane.subscriber = split_part(name, ' ', 2), lateral (
        select at, head, leased_until from journal
        where journal.lane = lane.id order by head desc, number desc limit 1
      ) as newest
    where (newest.leased_until is null or newest.leased_until <= now_at) and (
        newest.leased_until is not null
        or exists (select from exceptions where exceptions.lane = lane.id and due_at <= now_at limit 1)
        or (select position from log where log.stream = lane.stream order by position desc limit 1) > newest.head
          and (lane.slot > 0 or not exists (select from exceptions where exceptions.lane = lane.id and is_open limit 1))
          and not exists (
            select from backfills
            where backfills.topic = lane.topic and backfills.subscriber = lane.subscriber and ended_at is null
          )
      )
      and not exists (select from pauses where pauses.subscriber = lane.subscriber and pauses.topic in ('', lane.topic))
      and not (asked.waits and exists (select from outages where outages.subscriber = lane.subscriber))
    order by newest.at limit max_lanes
  ) as due
$$;

-- Lanes that have something to hand over and are free, or whose relay died, or that are among those `kept` by this relay. Of a paused
-- subscriber none.
--
-- Subqueries that have a limit are run for each lane. The planner may make a hash of others, of all open exceptions.
create or replace function postbud_due_lanes_1(now_at timestamptz, kept int[]) returns setof lane_heads language sql stable as $$
  select lane.* from lane_heads as lane
  where (leased_until is null or leased_until <= now_at or id = any (kept)) and (
      leased_until is not null and coalesce(id <> all (kept), true)
      or (select true from exceptions where exceptions.lane = lane.id and due_at <= now_at limit 1)
      or tail > head
        and (slot > 0 or (select true from exceptions where exceptions.lane = lane.id and is_open limit 1) is null)
        and not exists (
          select from backfills
          where backfills.topic = lane.topic and backfills.subscriber = lane.subscriber and ended_at is null
        )
    )
    and not exists (select from pauses where pauses.subscriber = lane.subscriber and pauses.topic in ('', lane.topic))
$$;

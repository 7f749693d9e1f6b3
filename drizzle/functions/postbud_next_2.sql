-- The next open deliveries of a lane, in order. They stand in the lane itself, or, of a key in trouble, in its home.
create or replace function postbud_next_2(
  lane bigint, home bigint, in_slot smallint, of_key text, head bigint, asked int
) returns table (
  "position" bigint, event_id uuid, attempts smallint, replays smallint, next_attempt_at timestamptz, payload_bytes int,
  backfilled boolean
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  in_trouble text[];
begin
  if home is not null then
    -- The row is compared as the index of keys has it: that of the primary key would read those of all other keys.
    return query
      select next.position, next.event_id, next.attempts, next.replays, next.next_attempt_at, next.payload_bytes,
        next.backfilled
      from deliveries as next
      where (next.lane_id, next.lane_key, next.position) > (home, of_key, head)
        and next.lane_id = home and next.lane_key = of_key
        and coalesce(next.state in ('pending', 'failing'), false)
      order by next.lane_id, next.lane_key, next.position limit asked;
    return;
  end if;
  if in_slot is not null then
    select array_agg(held_key) into in_trouble from lanes where home_id = lane;
  end if;
  return query
    select next.position, next.event_id, next.attempts, next.replays, next.next_attempt_at, next.payload_bytes,
        next.backfilled
    from deliveries as next
    where next.lane_id = lane and next.position > head
      -- Wrapped, so that the planner does not take the open ones for few, and read and sort a whole lane of them.
      and coalesce(next.state in ('pending', 'failing'), false)
      and (in_trouble is null or next.lane_key <> all (in_trouble))
    order by next.position limit asked;
end
$$;

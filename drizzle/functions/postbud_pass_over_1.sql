-- Moves the heads of lanes over events that are for others, up to the next one of their own. The lanes are locked; those that a relay
-- holds stay as they are.
create or replace function postbud_pass_over_1(of_lanes int[], now_at timestamptz) returns void language sql as $$
  insert into journal (lane, number, head, at, careful_to)
  select lane.id, lane.number + 1, coalesce(own.position, tail + 1) - 1, now_at, careful_to
  from lane_heads as lane, lateral (
    select min(greatest(range.position, lane.head + 1)) as position from (
      select position, subscribers, coalesce(lead(position) over (order by position), tail + 1) as until_position
      from audiences where audiences.stream = lane.stream
    ) as range
    where until_position > lane.head + 1 and lane.subscriber = any (subscribers)
  ) as own
  where lane.id = any (of_lanes) and leased_until is null and coalesce(own.position, tail + 1) - 1 > lane.head
$$;

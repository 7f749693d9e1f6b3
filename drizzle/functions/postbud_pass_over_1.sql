-- Moves the heads of lanes over events that are for others, up to the next one of their own. The lanes are locked; those that a relay
-- holds stay as they are.
create or replace function postbud_pass_over_1(of_lanes int[], now_at timestamptz) returns void language sql as $$
  insert into journal (lane, number, head, at, careful_to)
  select lane.id, lane.number + 1, own.position - 1, now_at, careful_to
  from lane_heads as lane, lateral (
    select coalesce(postbud_find_next_1(lane.stream, lane.subscriber, lane.head, tail), tail + 1) as position
  ) as own
  where lane.id = any (of_lanes) and leased_until is null and own.position - 1 > lane.head
$$;

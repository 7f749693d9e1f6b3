-- Says when a relay has to look at these keys of these lanes, in pairs: when the first open delivery of each may go on. Those behind
-- it have no time of their own, and one that a relay has in hand has none until it ends. The lanes are locked.
create or replace function postbud_make_due_1(of_lanes int[], of_keys text[], now_at timestamptz) returns void
language plpgsql as $$
begin
  update exceptions set due_at = coalesce(exceptions.next_attempt_at, now_at)
  from unnest(of_lanes, of_keys) as touched(lane, ordering_key), lateral (
    select position, is_held, state from exceptions as open
    where open.lane = touched.lane and open.ordering_key = touched.ordering_key and open.is_open
    order by open.lane, open.ordering_key, open.position limit 1
  ) as first
  where exceptions.lane = touched.lane and exceptions.position = first.position
    and not first.is_held and first.state in ('pending', 'failing')
    and exceptions.due_at is distinct from coalesce(exceptions.next_attempt_at, now_at);
end
$$;

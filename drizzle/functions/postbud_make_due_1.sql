-- Says when a relay has to look at these keys of these lanes, in pairs: when the first open delivery of each may go on. Those behind
-- it have no time of their own, and one that a relay has in hand has none until it ends. The lanes are locked.
create or replace function postbud_make_due_1(of_lanes int[], of_keys text[], now_at timestamptz) returns void
language plpgsql as $$
begin
  update exceptions set due_at = coalesce(next_attempt_at, now_at)
  where ctid = any (array(
      select first.ctid
      from unnest(of_lanes, of_keys) as touched(lane, key), lateral (
        select ctid, is_held, state from exceptions as open
        where open.lane = touched.lane and open.ordering_key = touched.key and open.is_open
        order by open.lane, open.ordering_key, open.position limit 1
      ) as first
      where not first.is_held and first.state in ('pending', 'failing')
    ))
    and due_at is distinct from coalesce(next_attempt_at, now_at);
end
$$;

-- The position up to which all deliveries of a lane are of events older than `since`. Positions follow the order of
-- creation, so it is found by halving.
create or replace function postbud_position_before_1(lane bigint, since timestamptz) returns bigint
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  older bigint := 0;
  newer bigint := (select tail from lanes where id = lane);
  middle bigint;
  probe record;
begin
  while older < newer loop
    middle := (older + newer) / 2;
    select position, created_at into probe
    from (
      select position, event_id from deliveries where lane_id = lane and position > middle order by position limit 1
    ) as next join events on events.id = event_id;
    if not found or probe.position > newer or probe.created_at >= since then
      newer := middle;
    else
      older := probe.position;
    end if;
  end loop;
  return older;
end
$$;

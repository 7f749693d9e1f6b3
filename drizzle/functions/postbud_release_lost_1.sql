-- Releases the lanes of claims whose answers were lost. No handler has begun, so nobody is charged, which their leases would do when
-- they run out. A lane that was to go on has the token of its run, which settles it.
create or replace function postbud_release_lost_1(tokens uuid[], now_at timestamptz) returns int language plpgsql as $$
declare
  lost int[];
  released int;
begin
  lost := array(
    select lanes.id from lanes, lateral (
      select token, leased_until from journal where lane = lanes.id order by head desc, number desc limit 1
    ) as newest
    where newest.token = any (tokens) and leased_until is not null
  );
  if lost = '{}' then
    return 0;
  end if;
  perform postbud_lock_lanes_2(lost);
  insert into journal (lane, number, head, at, careful_to)
  select lanes.id, newest.number + 1, newest.head, now_at, newest.careful_to
  from lanes, lateral (
    select number, head, token, leased_until, careful_to from journal where lane = lanes.id order by head desc, number desc limit 1
  ) as newest
  where lanes.id = any (lost) and newest.token = any (tokens) and leased_until is not null;
  get diagnostics released = row_count;
  return released;
end
$$;

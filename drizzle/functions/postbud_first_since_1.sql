-- Finds the position from which on the events of a stream were created at this instant or later; beyond its tail where none were. Places
-- are in the order of creation, so a few of them are read.
create or replace function postbud_first_since_1(of_stream int, since timestamptz, since_seq bigint default -1) returns bigint
language plpgsql stable as $$
declare
  low bigint := coalesce((select position from log where stream = of_stream order by position limit 1), 1);
  high bigint := coalesce((select position from log where stream = of_stream order by position desc limit 1), 0) + 1;
  middle bigint;
  found record;
begin
  while low < high loop
    middle := (low + high) / 2;
    select position, created_at, seq into found
    from log left join events on id = event_id where stream = of_stream and position >= middle order by position limit 1;
    if found.position is null or found.position >= high or (found.created_at, found.seq) >= (since, since_seq) then
      high := middle;
    else
      -- What was pruned is older.
      low := found.position + 1;
    end if;
  end loop;
  return low;
end
$$;

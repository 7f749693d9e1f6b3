-- Finds how far a lane had come at an instant, by halving: its journal is in the order of its heads, and so of time.
create or replace function postbud_head_at_1(of_lane int, instant timestamptz) returns bigint language plpgsql stable as $$
declare
  reached bigint := 0;
  beyond bigint := (select head from journal where lane = of_lane order by head desc, number desc limit 1);
  middle bigint;
  found_row record;
begin
  while reached < beyond loop
    middle := (reached + beyond) / 2;
    select head, at into found_row from journal where lane = of_lane and head > middle order by head, number limit 1;
    if found_row.at < instant then
      reached := found_row.head;
    else
      beyond := middle;
    end if;
  end loop;
  return reached;
end
$$;

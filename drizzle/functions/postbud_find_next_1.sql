-- Finds the first place beyond a head that is for a subscriber: positions are dense, so it is a matter of ranges.
-- @returns its position; null where there is none.
create or replace function postbud_find_next_1(of_stream int, of_subscriber text, head bigint, tail bigint) returns bigint
language sql stable as $$
  select min(greatest(position, head + 1))
  from (
    select position, subscribers, coalesce(lead(position) over (order by position), tail + 1) as until_position
    from audiences where stream = of_stream
  ) as audience
  where until_position > head + 1 and of_subscriber = any (subscribers)
$$;

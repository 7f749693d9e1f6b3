-- Counts the places of a stream beyond a head, up to another, that are for a subscriber: positions are dense, so it is a matter of
-- ranges.
create or replace function postbud_beyond_head_1(of_stream int, of_subscriber text, head bigint, tail bigint) returns bigint
language sql stable as $$
  select coalesce(sum(greatest(0, least(until_position, tail + 1) - greatest(position, head + 1))), 0)::bigint
  from (
    select position, subscribers, coalesce(lead(position) over (order by position), tail + 1) as until_position
    from audiences where stream = of_stream
  ) as audience
  where until_position > head + 1 and of_subscriber = any (subscribers)
$$;

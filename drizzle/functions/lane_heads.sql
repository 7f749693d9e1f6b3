-- Each lane with the newest row of its journal, which counts, and with its tail: the newest position of its stream.
create or replace view lane_heads as
  select lanes.id, lanes.stream, lanes.topic, lanes.slot, lanes.subscriber, newest.number, newest.head, coalesce(tail.position, newest.head) as tail, newest.at,
    newest.token, newest.leased_until, newest.first_claimed, newest.claimed_to, newest.careful_to, newest.handlers
  from lanes
    cross join lateral (
      select * from journal where lane = lanes.id order by head desc, number desc limit 1
    ) as newest
    left join lateral (
      select position from log where log.stream = lanes.stream order by position desc limit 1
    ) as tail on true;

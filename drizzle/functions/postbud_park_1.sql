-- Turns the deliveries of the log beyond the heads of these lanes into open exceptions, so many of each at most. The lanes are locked,
-- and free.
create or replace function postbud_park_1(of_lanes int[], most int, now_at timestamptz) returns void language plpgsql as $$
#variable_conflict use_column
declare
  parked_lanes int[];
  keys text[];
begin
  with free as materialized (
    select lanes.id, lanes.stream, lanes.subscriber, newest.number, newest.head, newest.careful_to
    from lanes, lateral (
      select number, head, leased_until, careful_to from journal where lane = lanes.id order by head desc, number desc limit 1
    ) as newest
    where lanes.id = any (of_lanes) and newest.leased_until is null
      -- What a backfill writes comes before what is beyond the head.
      and not exists (
        select from backfills where backfills.topic = lanes.topic and backfills.subscriber = lanes.subscriber and ended_at is null
      )
  ),
  place as materialized (
    select free.id, free.subscriber, next.*
    from free, lateral (
      select * from log where log.stream = free.stream and position > free.head order by position limit most
    ) as next
  ),
  parked as (
    insert into exceptions (lane, position, event_id, ordering_key, state, is_open)
    select id, position, event_id, ordering_key, 'pending', true from place
    where subscriber = any ((
      select subscribers from audiences
      where audiences.stream = place.stream and audiences.position <= place.position order by audiences.position desc limit 1
    )::text[])
    returning lane, ordering_key
  ),
  moved as (
    insert into journal (lane, number, head, at, careful_to)
    select free.id, number + 1, last.position, now_at, careful_to
    from free join (select id, max(position) as position from place group by id) as last using (id)
  )
  select array_agg(lane), array_agg(ordering_key) into parked_lanes, keys
  from (select distinct lane, ordering_key from parked) as parked;
  perform postbud_make_due_1(parked_lanes, keys, now_at);
end
$$;

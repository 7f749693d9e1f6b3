-- Prepares the lanes of a backfill. While its row is open no claim goes beyond their heads: so it waits for the claims from before, and
-- from then on the heads stay. Events beyond them that the subscriber lacks, as those of a release beside another, are its own from now
-- on; what it lacks before them is written step by step.
--
-- @returns whether it has begun: false while relays hold lanes with newer deliveries.
create or replace function postbud_begin_backfill_2(backfill uuid, now_at timestamptz) returns boolean language plpgsql as $$
declare
  asked backfills;
  own int[];
  given bigint;
begin
  select * into asked from backfills where id = backfill and ended_at is null for update;
  if not found or asked.begun_at is not null then
    return asked.id is not null;
  end if;
  perform pg_advisory_xact_lock(36952, hashtext(asked.topic));
  own := array(select id from lanes where topic = asked.topic and subscriber = asked.subscriber);
  perform postbud_lock_lanes_2(own);
  if exists (
    select from lane_heads as lane where id = any (own) and leased_until > now_at and (claimed_to > head or not subscriber = any ((
      select subscribers from audiences
      where audiences.stream = lane.stream and audiences.position <= head + 1 order by audiences.position desc limit 1
    )::text[]))
  ) then
    return false;
  end if;
  -- Of a relay that died: nobody claims from the log until the end. What it had in hand may go on.
  with let_go as (
    insert into journal (lane, number, head, at, careful_to)
    select id, number + 1, head, now_at, greatest(careful_to, claimed_to) from lane_heads
    where id = any (own) and leased_until <= now_at
    returning lane
  )
  update exceptions set is_held = false, due_at = coalesce(exceptions.next_attempt_at, now_at)
  from let_go
  where exceptions.lane = let_go.lane and is_open and is_held;
  perform postbud_pass_over_1(own, now_at);

  with beyond as materialized (
    select stream, tail, greatest(head + 1, postbud_first_since_1(stream, asked.since)) as position from lane_heads where id = any (own)
  ),
  range as materialized (
    select beyond.stream, greatest(range.position, beyond.position) as position, range.position as from_position, subscribers,
      least(until_position, tail + 1) as until_position
    from beyond, lateral (
      select position, subscribers, coalesce(lead(position) over (order by position), tail + 1) as until_position
      from audiences where audiences.stream = beyond.stream
    ) as range
    where range.until_position > beyond.position and not asked.subscriber = any (range.subscribers)
  ),
  split as (
    insert into audiences (stream, position, subscribers)
    select stream, position, array_append(subscribers, asked.subscriber) from range where position > from_position
  ),
  added as (
    update audiences set subscribers = array_append(audiences.subscribers, asked.subscriber)
    from range
    where audiences.stream = range.stream and audiences.position = range.position and range.position = from_position
  )
  select coalesce(sum(until_position - position), 0) into given from range;
  update backfills set begun_at = now_at, written = written + given where id = backfill;
  return true;
end
$$;

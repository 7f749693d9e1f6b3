-- Writes the next deliveries of a backfill that has begun, in the order of creation: open exceptions at the places that the subscriber
-- lacks, all of them before its heads. Where no more are left it ends the backfill.
create or replace function postbud_backfill_2(
  backfill uuid, most int, now_at timestamptz, out written int, out is_ended boolean
) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  asked record;
  own int[];
  lanes_written int[];
  keys_written text[];
  last_event uuid;
begin
  written := 0;
  is_ended := true;
  select backfills.*, created_at, seq into asked
  from backfills left join events on events.id = reached
  where backfills.id = backfill and ended_at is null for update of backfills;
  if not found then
    return;
  end if;
  perform pg_advisory_xact_lock_shared(36953, 0);
  own := array(select id from lanes where topic = asked.topic and subscriber = asked.subscriber);
  perform postbud_lock_lanes_2(own);
  with missing as materialized (
    select lane.id, missing.*, created_at, seq
    from (
        select *, postbud_first_since_1(stream, coalesce(asked.created_at, asked.since), coalesce(asked.seq + 1, -1)) as first
        from lane_heads where id = any (own)
      ) as lane, lateral (
        select next.* from (
          select position, subscribers, coalesce(lead(position) over (order by position), 9223372036854775807) as until_position
          from audiences where audiences.stream = lane.stream
        ) as range, lateral (
          select position, event_id, ordering_key from log
          where log.stream = lane.stream and log.position >= greatest(range.position, lane.first)
            and log.position < range.until_position and log.position <= lane.head and event_id is not null
            and not exists (select from exceptions where exceptions.lane = lane.id and exceptions.position = log.position)
          order by log.position limit most + 1
        ) as next
        where range.until_position > lane.first and not asked.subscriber = any (range.subscribers)
        order by next.position limit most + 1
      ) as missing join events on events.id = missing.event_id
    where created_at >= asked.since
    order by created_at, seq limit most + 1
  ),
  chosen as materialized (
    select * from missing order by created_at, seq limit most
  ),
  added as (
    insert into exceptions (lane, position, event_id, ordering_key, state, is_open, backfilled, attempt_log)
    select id, position, event_id, ordering_key, 'pending', true, true,
      jsonb_build_array(jsonb_build_object('attempt', 0, 'at', now_at, 'durationMs', 0, 'outcome', 'backfilled',
        'by', asked.requested_by, 'reason', asked.reason))
    from chosen
  )
  select count(*), (select count(*) <= most from missing), array_agg(id), array_agg(ordering_key),
    (array_agg(event_id order by created_at desc, seq desc))[1]
  into written, is_ended, lanes_written, keys_written, last_event from chosen;
  perform postbud_make_due_1(array_agg(lane), array_agg(ordering_key), now_at)
  from (select distinct * from unnest(lanes_written, keys_written) as pair(lane, ordering_key)) as touched;
  update backfills set written = backfills.written + postbud_backfill_2.written, reached = coalesce(last_event, reached),
    ended_at = case when is_ended then now_at end,
    next_at = case when per_minute is null then now_at
      -- What it was late for is caught up, but not more than ten seconds of it.
      else greatest(next_at, now_at - interval '10 seconds')
        + postbud_backfill_2.written * interval '1 minute' / per_minute end
  where id = backfill;
end
$$;

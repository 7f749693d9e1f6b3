-- Reads what is new in the journals: adds it to the totals of the lanes and to the minutes of their topics, and deletes the claims that
-- are settled. What was committed in the last minutes is left for the next call, so that a transaction that is still under way is not
-- passed over. Moves heads over events that are for others.
-- @returns how many rows it has read.
create or replace function postbud_roll_up_1(clock timestamptz) returns bigint language plpgsql
set enable_seqscan = off as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := coalesce(clock, clock_timestamp());
  -- A transactional handler settles before its commit, and has a minute.
  until constant timestamptz := now_at - interval '2 minutes';
  read bigint;
  idle int[];
begin
  if not pg_try_advisory_xact_lock(36966, 0) then
    return 0;
  end if;
  with known as materialized (
    select lanes.id, lanes.topic, coalesce(lane_totals.head, -1) as head, coalesce(lane_totals.number, -1) as number, newest.number as newest
    from lanes left join lane_totals on lane_totals.lane = lanes.id, lateral (
      select number from journal where lane = lanes.id order by head desc, number desc limit 1
    ) as newest
  ),
  new_row as materialized (
    select known.id, known.topic, known.newest, next.*
    from known, lateral (
      select * from journal
      where journal.lane = known.id and (journal.head, journal.number) > (known.head, known.number) and at < until
      order by journal.head, journal.number limit 10000
    ) as next
  ),
  total as (
    insert into lane_totals as known (lane, head, number, delivered, failed, dead_lettered, last_delivered_at, last_failed_at)
    select id, (array_agg(head order by head desc, number desc))[1], (array_agg(number order by head desc, number desc))[1],
      coalesce(sum(delivered), 0), coalesce(sum(failed), 0), coalesce(sum(dead_lettered), 0),
      max(at) filter (where delivered > 0), max(at) filter (where failed > 0)
    from new_row group by id order by id
    on conflict (lane) do update set head = excluded.head, number = excluded.number,
      delivered = known.delivered + excluded.delivered, failed = known.failed + excluded.failed,
      dead_lettered = known.dead_lettered + excluded.dead_lettered,
      last_delivered_at = greatest(known.last_delivered_at, excluded.last_delivered_at),
      last_failed_at = greatest(known.last_failed_at, excluded.last_failed_at)
  ),
  minute as (
    insert into throughput_minutes as known (minute, topic, delivered, dead_lettered)
    select date_trunc('minute', at), topic, sum(coalesce(delivered, 0)), sum(coalesce(dead_lettered, 0))
    from new_row where (delivered > 0 or dead_lettered > 0) and topic <> 'system.smoke_test.started' group by 1, 2 order by 1, 2
    on conflict (minute, topic) do update set delivered = known.delivered + excluded.delivered,
      dead_lettered = known.dead_lettered + excluded.dead_lettered
  ),
  gone as (
    -- Settlements stay, because they say when each delivery was made.
    delete from journal using new_row
    where journal.lane = new_row.id and journal.head = new_row.head and journal.number = new_row.number
      and new_row.delivered is null and new_row.failed is null and new_row.number <> new_row.newest
  )
  select count(*) into read from new_row;
  idle := array(
    select id from lane_heads as lane
    where leased_until is null and head < tail and not subscriber = any ((
        select subscribers from audiences
        where audiences.stream = lane.stream and audiences.position <= head + 1 order by audiences.position desc limit 1
      )::text[])
      -- Those of others are moved another time.
      and pg_try_advisory_xact_lock(36965, id)
  );
  perform postbud_pass_over_1(idle, now_at);
  return read;
end
$$;

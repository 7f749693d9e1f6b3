-- What each process does once a second, beside its turns: it makes the lanes due of relays that died, and folds counters.
-- @returns the clock, and how many lanes are due by it.
create or replace function postbud_tidy_1(
  -- When this process tidied last: it has looked for relays that died, and folded, up to then. Null for the first time.
  clock timestamptz, since timestamptz, out now_at timestamptz, out rescued int
) language plpgsql
set enable_seqscan = off as $$
declare
  -- Counters are kept by stretches of four seconds.
  stretch constant bigint := floor(extract(epoch from clock_timestamp()) / 4);
  -- A later time is of a clock that was ahead: it has looked nowhere by this one.
  seen_until constant timestamptz := case when since <= clock_timestamp() then since end;
  last_stretch constant bigint := floor(extract(epoch from seen_until) / 4);
  -- Each stretch is folded when it is over, and once more after two minutes: for what was locked, or not committed yet. What
  -- has been folded is dead rows, and a snapshot may keep them.
  ranges constant int8range[] := case when last_stretch is null then array[int8range(64, (stretch - 2) * 64)]
    else array(
      select int8range(greatest((last_stretch - age) * 64, 64), (stretch - age) * 64)
      from unnest(array[2, 30]) as age where last_stretch < stretch
    ) end;
  held bigint[];
  locked record;
begin
  now_at := coalesce(clock, clock_timestamp());
  with passed as (
    -- A turn takes less time than a lease lasts: what is older has been seen.
    delete from leases where until > coalesce(seen_until - interval '1 second', '-infinity') and until <= now_at returning lanes
  )
  select array_agg(id) into held from passed, unnest(lanes) as id;
  rescued := 0;
  if held is not null then
    locked := postbud_lock_lanes_1(held);
    -- In a newer snapshot, now that they are locked: a lane that a turn has lengthened meanwhile has another address.
    update lanes set due_at = leased_until
    where ctid = any (locked.addresses) and lease_token is not null and due_at is null and leased_until <= now_at;
    get diagnostics rescued = row_count;
  end if;
  with recent as (
    select id from unnest(ranges) as stretches, lateral (
      select ctid as id from backlog where shard >= 64 and shard >= lower(stretches) and shard < upper(stretches)
      order by topic, subscriber, shard for update skip locked
    ) as row
  ),
  folded as (
    delete from backlog where ctid = any (array(select id from recent)) returning *
  )
  insert into backlog as total (topic, subscriber, shard, pending, failing, dead_lettered, last_delivered_at,
    last_failed_at, delivered_total, failed_total, dead_lettered_total)
  select topic, subscriber, shard % 64, sum(pending), sum(failing), sum(dead_lettered),
    max(last_delivered_at), max(last_failed_at), sum(delivered_total), sum(failed_total), sum(dead_lettered_total)
  from folded group by 1, 2, 3 order by 1, 2, 3
  on conflict (topic, subscriber, shard) do update set pending = total.pending + excluded.pending,
    failing = total.failing + excluded.failing, dead_lettered = total.dead_lettered + excluded.dead_lettered,
    last_delivered_at = greatest(total.last_delivered_at, excluded.last_delivered_at),
    last_failed_at = greatest(total.last_failed_at, excluded.last_failed_at),
    delivered_total = total.delivered_total + excluded.delivered_total,
    failed_total = total.failed_total + excluded.failed_total,
    dead_lettered_total = total.dead_lettered_total + excluded.dead_lettered_total;
  with recent as (
    select id from unnest(ranges) as stretches, lateral (
      select ctid as id from throughput where shard >= 64 and shard >= lower(stretches) and shard < upper(stretches)
      order by hour, topic, shard for update skip locked
    ) as row
  ),
  folded as (
    delete from throughput where ctid = any (array(select id from recent)) returning *
  ),
  by_minute as (
    insert into throughput_minutes as total (minute, topic, delivered, first_attempt, dead_lettered)
    select hour + minute * interval '1 minute', topic, sum(delivered), sum(first_attempt), sum(dead_lettered)
    from folded group by 1, 2 order by 1, 2
    on conflict (minute, topic) do update set delivered = total.delivered + excluded.delivered,
      first_attempt = total.first_attempt + excluded.first_attempt,
      dead_lettered = total.dead_lettered + excluded.dead_lettered
  )
  insert into throughput as total (hour, topic, shard, delivered, first_attempt, dead_lettered)
  select hour, topic, shard % 64, sum(delivered), sum(first_attempt), sum(dead_lettered)
  from folded group by 1, 2, 3 order by 1, 2, 3
  on conflict (hour, topic, shard) do update set delivered = total.delivered + excluded.delivered,
    first_attempt = total.first_attempt + excluded.first_attempt,
    dead_lettered = total.dead_lettered + excluded.dead_lettered;
  -- This process does not look there again. So what it rescues has to outlast a crash, and also the claim by which another
  -- relay has a lane since, before this passed over it.
  if held is null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
end
$$;

-- Adds changes to the counters, so that how much is where is known without counting.
--
-- Each backend has rows of its own, so that nobody waits for another, and new ones every four seconds: a row that is changed
-- for hours beside an old snapshot has as many dead versions, which each change would read. postbud_tidy_1 folds them
-- into shards 0 to 63. Rows are locked in their order, backlog before throughput.
create or replace function postbud_count_2(changes postbud_change_1[], at timestamptz) returns void language plpgsql as $$
declare
  few constant int := 16;
  own_shard constant bigint := extract(epoch from clock_timestamp())::bigint / 4 * 64 + pg_backend_pid() % 64;
  change postbud_change_1;
  known postbud_change_1;
  totals postbud_change_1[] := '{}';
  is_known boolean;
  is_settled boolean := false;
begin
  -- A row can be changed once in a statement. Few are added up here, since an aggregate costs more to begin than they do.
  if cardinality(changes) > few then
    totals := array(
      select row(topic, subscriber, sum(pending), sum(failing), sum(dead_lettered), sum(delivered), sum(first_attempt),
        sum(failed), max(last_delivered_at), max(last_failed_at))::postbud_change_1
      from unnest(changes) group by topic, subscriber
    );
    is_settled := true;
  else
    foreach change in array changes loop
      is_settled := is_settled or change.delivered > 0 or change.dead_lettered > 0;
      is_known := false;
      for number in 1..cardinality(totals) loop
        known := totals[number];
        if known.topic = change.topic and known.subscriber = change.subscriber then
          is_known := true;
          totals[number] := row(known.topic, known.subscriber, known.pending + change.pending, known.failing + change.failing,
            known.dead_lettered + change.dead_lettered, known.delivered + change.delivered,
            known.first_attempt + change.first_attempt, known.failed + change.failed,
            greatest(known.last_delivered_at, change.last_delivered_at), greatest(known.last_failed_at, change.last_failed_at));
        end if;
      end loop;
      if not is_known then
        totals := totals || change;
      end if;
    end loop;
  end if;
  insert into backlog as total (topic, subscriber, shard, pending, failing, dead_lettered, last_delivered_at,
    last_failed_at, delivered_total, failed_total, dead_lettered_total)
  select topic, subscriber, own_shard, pending, failing, dead_lettered, last_delivered_at, last_failed_at, delivered, failed,
    case when subscriber <> '' then greatest(dead_lettered, 0) else 0 end
  -- No figure counts the events of smoke tests.
  from unnest(totals) where topic <> 'system.smoke_test.started' order by topic, subscriber
  on conflict (topic, subscriber, shard) do update set pending = total.pending + excluded.pending,
    failing = total.failing + excluded.failing, dead_lettered = total.dead_lettered + excluded.dead_lettered,
    last_delivered_at = greatest(total.last_delivered_at, excluded.last_delivered_at),
    last_failed_at = greatest(total.last_failed_at, excluded.last_failed_at),
    delivered_total = total.delivered_total + excluded.delivered_total,
    failed_total = total.failed_total + excluded.failed_total,
    dead_lettered_total = total.dead_lettered_total + excluded.dead_lettered_total;
  if not is_settled then
    return;
  end if;
  insert into throughput as total (hour, topic, shard, minute, delivered, first_attempt, dead_lettered)
  select date_trunc('hour', at, 'UTC'), topic, own_shard, extract(minute from at), sum(delivered), sum(first_attempt),
    sum(greatest(dead_lettered, 0))
  from unnest(totals)
  where subscriber <> '' and (delivered > 0 or dead_lettered > 0) and topic <> 'system.smoke_test.started'
  group by topic order by topic
  on conflict (hour, topic, shard) do update set delivered = total.delivered + excluded.delivered,
    first_attempt = total.first_attempt + excluded.first_attempt,
    dead_lettered = total.dead_lettered + excluded.dead_lettered;
end
$$;

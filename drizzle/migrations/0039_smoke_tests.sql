create table smoke_tests (
  id uuid primary key,
  started_at timestamptz not null,
  started_by text not null,
  origin text,
  subscribers text[] not null,
  webhooks jsonb,
  ended_at timestamptz
);--> statement-breakpoint
create index smoke_tests_open on smoke_tests (started_at) where ended_at is null;--> statement-breakpoint
-- As before, but for the event of smoke tests, which no figure counts.
create or replace function postbud_count_1(changes postbud_change_1[], at timestamptz) returns void language plpgsql as $$
begin
  insert into backlog as total (topic, subscriber, shard, pending, failing, dead_lettered, last_delivered_at,
    last_failed_at, delivered_total, failed_total, dead_lettered_total)
  select topic, subscriber, pg_backend_pid() % 64, sum(pending), sum(failing), sum(dead_lettered),
    max(last_delivered_at), max(last_failed_at), sum(delivered), sum(failed),
    sum(case when subscriber <> '' then greatest(dead_lettered, 0) else 0 end)
  from unnest(changes) where topic <> 'system.smoke_test.started'
  group by topic, subscriber order by topic, subscriber
  on conflict (topic, subscriber, shard) do update set pending = total.pending + excluded.pending,
    failing = total.failing + excluded.failing, dead_lettered = total.dead_lettered + excluded.dead_lettered,
    last_delivered_at = greatest(total.last_delivered_at, excluded.last_delivered_at),
    last_failed_at = greatest(total.last_failed_at, excluded.last_failed_at),
    delivered_total = total.delivered_total + excluded.delivered_total,
    failed_total = total.failed_total + excluded.failed_total,
    dead_lettered_total = total.dead_lettered_total + excluded.dead_lettered_total;
  if not exists (select from unnest(changes) where delivered > 0 or dead_lettered > 0) then
    return;
  end if;
  insert into throughput as total (hour, topic, shard, delivered, first_attempt, dead_lettered)
  select date_trunc('hour', at, 'UTC'), topic, pg_backend_pid() % 64, sum(delivered), sum(first_attempt),
    sum(greatest(dead_lettered, 0))
  from unnest(changes)
  where subscriber <> '' and (delivered > 0 or dead_lettered > 0) and topic <> 'system.smoke_test.started'
  group by topic order by topic
  on conflict (hour, topic, shard) do update set delivered = total.delivered + excluded.delivered,
    first_attempt = total.first_attempt + excluded.first_attempt,
    dead_lettered = total.dead_lettered + excluded.dead_lettered;
end
$$;

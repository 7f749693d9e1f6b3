-- What a transition changed in one subscription, or, with an empty subscriber, by how much the topic's events moved
-- between states.
create type postbud_change_1 as (
  topic text,
  subscriber text,
  pending int,
  failing int,
  dead_lettered int,
  delivered int,
  -- Those of `delivered` that needed one attempt and no replay.
  first_attempt int,
  -- Attempts, also the last one of a dead letter.
  failed int,
  last_delivered_at timestamptz,
  last_failed_at timestamptz
);--> statement-breakpoint
-- Adds changes to the counters, so that how much is where is known without counting. Each backend has rows of its own
-- (one of 64), so that nobody waits for another. Rows are locked in their order, backlog before throughput.
create or replace function postbud_count_1(changes postbud_change_1[], at timestamptz) returns void language plpgsql as $$
begin
  insert into backlog as total (topic, subscriber, shard, pending, failing, dead_lettered, last_delivered_at,
    last_failed_at, delivered_total, failed_total, dead_lettered_total)
  select topic, subscriber, pg_backend_pid() % 64, sum(pending), sum(failing), sum(dead_lettered),
    max(last_delivered_at), max(last_failed_at), sum(delivered), sum(failed),
    sum(case when subscriber <> '' then greatest(dead_lettered, 0) else 0 end)
  from unnest(changes) group by topic, subscriber order by topic, subscriber
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
  from unnest(changes) where subscriber <> '' and (delivered > 0 or dead_lettered > 0)
  group by topic order by topic
  on conflict (hour, topic, shard) do update set delivered = total.delivered + excluded.delivered,
    first_attempt = total.first_attempt + excluded.first_attempt,
    dead_lettered = total.dead_lettered + excluded.dead_lettered;
end
$$;--> statement-breakpoint
-- The worst state of an event's deliveries, as its generated column has it, from other counters than the stored ones.
create or replace function postbud_event_state(open int, failing int, dead_lettered int) returns delivery_state
language sql stable parallel safe as $$
  select (case when dead_lettered > 0 then 'dead_lettered' when failing > 0 then 'failing'
    when open > 0 then 'pending' else 'delivered' end)::delivery_state
$$;--> statement-breakpoint
-- An event that went from one state to another, as a change of its topic's events.
create or replace function postbud_event_moved(topic text, was delivery_state, becomes delivery_state)
returns postbud_change_1 language sql stable parallel safe as $$
  select row(topic, '', (becomes = 'pending')::int - (was = 'pending')::int,
    (becomes = 'failing')::int - (was = 'failing')::int,
    (becomes = 'dead_lettered')::int - (was = 'dead_lettered')::int, 0, 0, 0, null, null)::postbud_change_1
$$;

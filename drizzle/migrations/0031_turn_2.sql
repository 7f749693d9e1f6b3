-- One turn of a relay in one round trip: fans out, settles what is done, and claims what is due. Each statement in here
-- sees what was committed before it began, and begins only if there is something for it to do.
--
-- The order of locks is that of lib/deliveries/locks.ts: the fan-out's, then all lanes that are changed, in the order of
-- their ids, then events, then counters. A claim passes over lanes that others have locked.
--
-- With `max_lanes` 0 it only settles: the relay's time is up. Without `is_looking` it asks only for the lanes that its own
-- fan-out has lengthened, if those are few; finding none of them it looks everywhere.
create or replace function postbud_turn_2(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb, leaving jsonb,
  fence jsonb,
  token uuid, topics text[], subscribers text[], versions int[], leases_ms float8[], waits boolean[],
  max_lanes int, max_deliveries int, is_looking boolean,
  clock timestamptz
) returns json language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  now_at timestamptz := coalesce(clock, clock_timestamp());
  has_waiting boolean;
  fence_at timestamptz;
  fanned_out int := 0;
  has_unaddressed boolean;
  lengthened bigint[];
  tails bigint[];
  firsts timestamptz[];
  changes postbud_change_1[];
  settled record;
  settlement json;
  claimed json;
begin
  -- What operators go by to tell that a relay runs. Once a second is enough, and nobody waits to write it.
  if max_lanes > 0 and exists (select from last_pass where at is null or at < now_at - interval '1 second') then
    update last_pass set at = now_at where ctid = any (array(select ctid from last_pass for update skip locked));
  end if;
  has_waiting := max_lanes > 0 and exists (select from awaiting_fan_out);
  if has_waiting then
    select found.fence, found.at, found.events, found.has_unaddressed, found.lanes, found.tails, found.firsts, found.changes
    into fence, fence_at, fanned_out, has_unaddressed, lengthened, tails, firsts, changes
    from postbud_fan_out_1(fence, outcomes is null) as found;
  end if;
  if outcomes is not null then
    perform from lanes
    where id = any (
      array(select id from unnest(outcomes) union select home from unnest(outcomes) union select unnest(lengthened))
    )
    order by id for update;
  end if;
  if lengthened is not null then
    with longer as (
      select id, max(tail) as tail, min(first_at) as first_at
      from unnest(lengthened, tails, firsts) as longer(id, tail, first_at) group by id
    )
    update lanes set tail = greatest(lanes.tail, locked.tail),
      due_at = coalesce(lanes.due_at, least(locked.first_at, now_at))
    from (
      select lanes.id, longer.tail, longer.first_at from lanes join longer using (id) order by lanes.id for update of lanes
    ) as locked
    where lanes.id = locked.id;
  end if;
  if outcomes is not null then
    select * into settled from postbud_settle_2(outcomes, delivered_lanes, delivered_homes, delivered_positions,
      delivered_at_ms, delivered_in_ms, unfinished, leaving, now_at);
    changes := changes || settled.changes;
    settlement := json_build_object('held', settled.held, 'leftFor', settled.left_for, 'delivered', settled.delivered, 'failed', settled.failed,
      'waited', settled.waited, 'deadLettered', settled.dead_lettered);
  end if;
  if cardinality(changes) > 0 then
    perform postbud_count_1(changes, now_at);
  end if;
  now_at := coalesce(clock, clock_timestamp());
  if max_lanes > 0 then
    if not is_looking and cardinality(lengthened) <= 16 then
      claimed := postbud_claim_2(
        token, topics, subscribers, versions, leases_ms, waits, lengthened, max_lanes, max_deliveries, now_at);
    end if;
    if claimed is null then
      claimed := postbud_claim_2(
        token, topics, subscribers, versions, leases_ms, waits, null, max_lanes, max_deliveries, now_at);
    end if;
  end if;
  -- What a crash takes back nobody was handed: then the commit need not wait for the disk.
  if claimed is null and outcomes is null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  -- The clock once more: whoever had a lane before has settled it before that, and not before `now`.
  return json_build_object('now', extract(epoch from now_at) * 1000,
    'clock', extract(epoch from coalesce(clock, clock_timestamp())) * 1000, 'fannedOut', fanned_out,
    'isAwaited', has_waiting and exists (select from awaiting_fan_out), 'hasUnaddressed', coalesce(has_unaddressed, false),
    'fence', fence, 'fenceAt', extract(epoch from fence_at) * 1000, 'settled', settlement,
    'claimed', claimed, 'hasRecovered', exists (select from outages where recovered_at is not null));
end
$$;

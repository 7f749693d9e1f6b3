-- Settles in the transaction of a handler. @returns how many deliveries it recorded as delivered.
create or replace function postbud_settle_alone_3(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  leaving jsonb
) returns int language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  at timestamptz;
  wanted bigint[];
  outcome postbud_outcome_2;
  held bigint[] := '{}';
  locked record;
  settled record;
begin
  perform postbud_require_read_committed_1();
  foreach outcome in array outcomes loop
    wanted := wanted || outcome.id || outcome.home;
  end loop;
  locked := postbud_lock_lanes_1(wanted);
  foreach outcome in array outcomes loop
    if (locked.rows[array_position(locked.ids, outcome.id)]).lease_token = outcome.token then
      held := held || outcome.id;
    end if;
  end loop;
  at := clock_timestamp();
  settled := postbud_settle_3(outcomes, delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms,
    delivered_in_ms, unfinished, leaving, locked.ids, locked.addresses, locked.rows, held,
    exists (select from halts) or exists (select from backfills where ended_at is null), false, at);
  if cardinality(settled.changes) > 0 then
    perform postbud_count_2(settled.changes, at);
  end if;
  return settled.delivered;
end
$$;

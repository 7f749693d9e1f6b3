-- Settles in the transaction of a handler, which has answered. @returns whether its lane was still held.
create or replace function postbud_settle_alone_4(outcomes json, exceptional jsonb, now_at timestamptz) returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  settled record;
begin
  perform postbud_require_read_committed_1();
  perform postbud_lock_lanes_2(array(select lane from json_to_recordset(outcomes) as outcome(lane int)));
  now_at := coalesce(now_at, clock_timestamp());
  settled := postbud_settle_4(outcomes, exceptional, now_at);
  if settled.is_any_silent and settled.held is not null then
    perform postbud_end_outages_1(settled.held, now_at);
  end if;
  return settled.held is not null;
end
$$;

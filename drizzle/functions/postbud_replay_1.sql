-- Puts deliveries of a lane back that have ended: each is open again, in its place, with fresh attempts. One that waits already stays
-- as it is. The lane is locked.
--
-- `entry`: the operator's action, for their logs; each adds the group of the error that it had.
-- @returns how many.
create or replace function postbud_replay_1(of_lane int, positions bigint[], entry jsonb, now_at timestamptz) returns int
language plpgsql as $$
#variable_conflict use_column
declare
  -- Else the log of a delivery that is replayed again and again would grow by a page of text each time: two rounds of five attempts.
  answers_kept constant int := 10;
  keys text[];
  replayed int;
begin
  with ended as materialized (
    select deliveries.*, case when state = 'delivered' and attempted_at is not null
        then jsonb_build_array(jsonb_build_object('attempt', attempts, 'at', attempted_at, 'durationMs', duration_ms,
          'outcome', 'delivered'))
        else '[]' end as last_attempt
    from deliveries
    where deliveries.lane = of_lane and deliveries.position = any (positions) and state in ('delivered', 'dead_lettered')
  ),
  back as (
    insert into exceptions (lane, position, event_id, ordering_key, state, is_open, replayed_at, replays, attempt_log)
    select lane, position, event_id, ordering_key, 'pending', true, now_at, replays + 1,
      case when jsonb_array_length(attempt_log) > answers_kept then (
          select jsonb_agg(case when nth > jsonb_array_length(attempt_log) - answers_kept then earlier
            else earlier - 'answer' end order by nth)
          from jsonb_array_elements(attempt_log) with ordinality as logged(earlier, nth)
        ) else coalesce(attempt_log, '[]') end || last_attempt || (entry || jsonb_build_object('group', error_group))
    from ended
    on conflict (lane, position) do update set state = 'pending', is_open = true, attempts = 0, next_attempt_at = null,
      delivered_at = null, dead_lettered_at = null, dismissed_at = null, error_group = null, replayed_at = now_at,
      replays = excluded.replays, attempt_log = excluded.attempt_log
    returning ordering_key
  )
  select array_agg(distinct ordering_key), count(*) into keys, replayed from back;
  perform postbud_make_due_1(array_fill(of_lane, array[cardinality(keys)]), keys, now_at) where replayed > 0;
  return replayed;
end
$$;

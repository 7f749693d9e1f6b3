-- Puts deliveries of a lane back: each is open again, in its place. One that waits already stays as it is. The lane is locked.
-- @returns how many.
create or replace function postbud_replay_1(of_lane int, positions bigint[], entry jsonb, now_at timestamptz) returns int
language plpgsql as $$
#variable_conflict use_column
declare
  keys text[];
begin
  with passed as (
    select deliveries.* from deliveries
    where deliveries.lane = of_lane and deliveries.position = any (positions)
      and state in ('delivered', 'dead_lettered')
  ),
  back as (
    insert into exceptions as known (lane, position, event_id, ordering_key, state, is_open, replayed_at, replays, attempt_log)
    select lane, position, event_id, ordering_key, 'pending', true, now_at, 1,
      case when attempted_at is null then '[]' else jsonb_build_array(jsonb_build_object('attempt', attempts, 'at', attempted_at,
        'durationMs', duration_ms, 'outcome', 'delivered')) end || entry
    from passed
    on conflict (lane, position) do update set state = 'pending', is_open = true, attempts = 0, next_attempt_at = null,
      delivered_at = null, dead_lettered_at = null, dismissed_at = null, error_group = null, replayed_at = now_at,
      replays = known.replays + 1,
      attempt_log = coalesce(known.attempt_log, '[]') || case when known.state = 'delivered'
        then jsonb_build_array(jsonb_build_object('attempt', known.attempts, 'at', known.attempted_at,
          'durationMs', known.duration_ms, 'outcome', 'delivered')) else '[]' end || entry
    returning ordering_key
  )
  select array_agg(ordering_key) into keys from back;
  perform postbud_make_due_1(array_fill(of_lane, array[cardinality(keys)]), keys, now_at);
  return coalesce(cardinality(keys), 0);
end
$$;

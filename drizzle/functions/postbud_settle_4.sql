-- Records what relays have done with lanes that they hold, and lets these go or keeps them. The lanes are locked.
--
-- An outcome counts only where the journal's newest row is the one that its relay knows: whoever lost a lane changes nothing, and
-- doing it twice changes nothing the second time. One that `is_doubtful` does not know whether its last commit, or its last claim, was
-- made, which has kept the lane behind that row; its own row comes behind both.
create or replace function postbud_settle_4(
  outcomes json, exceptional jsonb, now_at timestamptz,
  -- The lanes that were held; those of which an earlier call, whose answer was lost, had settled the same; and those that were held
  -- although their leases had ended: another claim may have counted on their places among a subscriber's limits.
  out held int[], out repeated int[], out lapsed int[],
  -- Whether any subscriber was silent before.
  out is_any_silent boolean
) language plpgsql as $$
#variable_conflict use_column
declare
  heads bigint[];
begin
  with outcome as materialized (
    select outcome.*, newest.head as head_was, newest.leased_until as until_was, newest.claimed_to as claimed_was,
      newest.careful_to as careful_was, newest.handlers as handlers_were,
      coalesce(newest.token = outcome.token and (
        newest.number = outcome.number or is_doubtful and newest.number = outcome.number + 1 and newest.leased_until is not null
      ), false) as is_held
    from json_to_recordset(outcomes) as outcome(
        lane int, number bigint, token uuid, head bigint, first bigint, took_ms int[], ago_ms int[], keep_ms int,
        next_claimed bigint, careful_to bigint, delivered int, failed int, dead_lettered int, is_answered boolean,
        is_doubtful boolean, sent_at timestamptz
      ), lateral (
        select number, token, head, leased_until, claimed_to, careful_to, handlers from journal
        where journal.lane = outcome.lane order by head desc, number desc limit 1
      ) as newest
  ),
  settlement as (
    insert into journal (lane, number, head, at, token, leased_until, first_claimed, claimed_to, careful_to, handlers, first,
      took_ms, ago_ms, delivered, failed, dead_lettered, is_answered)
    select lane, number + 1 + is_doubtful::int, greatest(head, head_was), least(sent_at, now_at), token,
      -- A lease that ends later than this one would be another call's.
      case when keep_ms > 0 then greatest(until_was, now_at + keep_ms * interval '1 millisecond') end,
      case when keep_ms > 0 then next_claimed end, case when keep_ms > 0 then claimed_was end,
      coalesce(careful_to, careful_was), case when keep_ms > 0 then handlers_were end,
      first, took_ms, ago_ms, nullif(delivered, 0), nullif(failed, 0), nullif(dead_lettered, 0), nullif(is_answered, false)
    from outcome where is_held
    returning lane
  )
  select array_agg(lane) filter (where is_held), array_agg(head_was) filter (where is_held),
    array_agg(lane) filter (where not is_held and exists (
      select from journal
      where journal.lane = outcome.lane and journal.head >= outcome.head
        and journal.number = outcome.number + 1 + is_doubtful::int
        and journal.token = outcome.token
    )), array_agg(lane) filter (where is_held and until_was <= now_at), exists (select from outages)
  into held, heads, repeated, lapsed, is_any_silent from outcome;
  if exceptional is null or held is null then
    return;
  end if;
  if exceptional @? '$[*].error_group.rest' then
    exceptional := postbud_bound_groups_2(exceptional);
  end if;
  if exceptional @? '$[*] ? (@.is_absent == true)' then
    exceptional := postbud_judge_absences_1(exceptional, held, now_at);
  end if;
  with attempt as materialized (
    select attempt.*, lanes.stream, lanes.topic, lanes.subscriber, log.event_id, log.ordering_key,
      case kind when 'delivered' then 'delivered' when 'dead' then 'dead_lettered' when 'failed' then 'failing'
        else 'pending' end::delivery_state as becomes,
      kind in ('failed', 'waited', 'parked', 'running') or kind = 'dead' and halts as stays_open,
      case when kind in ('delivered', 'failed', 'dead') then 1 else 0 end::smallint as burnt
    from jsonb_to_recordset(exceptional) as attempt(
        lane int, position bigint, kind text, replays smallint, at timestamptz, duration_ms int, next_attempt_at timestamptz,
        halts boolean, error_group jsonb, entry jsonb
      )
      join unnest(held, heads) as lane_held(id, head) on lane_held.id = attempt.lane, lateral (
        select stream, topic, subscriber from lanes where lanes.id = attempt.lane limit 1
      ) as lanes, lateral (
        select event_id, ordering_key from log where log.stream = lanes.stream and log.position = attempt.position limit 1
      ) as log
    -- What the head had passed and has no row was delivered, by a commit that was not answered.
    where attempt.position > lane_held.head
      or (
        select true from exceptions where exceptions.lane = attempt.lane and exceptions.position = attempt.position limit 1
      )
  ),
  written as (
    insert into exceptions as known (lane, position, event_id, ordering_key, state, is_open, is_held, attempts, attempted_at,
      duration_ms, next_attempt_at, delivered_at, dead_lettered_at, error_group, attempt_log)
    select lane, position, event_id, ordering_key, becomes, stays_open, kind = 'running', burnt, at, duration_ms, next_attempt_at,
      case when kind = 'delivered' then at + duration_ms * interval '1 millisecond' end,
      case when kind = 'dead' then at + duration_ms * interval '1 millisecond' end,
      case when kind = 'dead' then error_group ->> 'key' end,
      case when entry is not null then jsonb_build_array(entry || jsonb_build_object('attempt', 1)) end
    from attempt
    on conflict (lane, position) do update set
      -- An attempt that does not count leaves a failing one failing.
      state = case when excluded.state = 'pending' then known.state else excluded.state end,
      is_open = excluded.is_open, is_held = excluded.is_held, due_at = null,
      attempts = known.attempts + excluded.attempts,
      attempted_at = coalesce(excluded.attempted_at, known.attempted_at),
      duration_ms = coalesce(excluded.duration_ms, known.duration_ms),
      next_attempt_at = case when excluded.is_held then known.next_attempt_at else excluded.next_attempt_at end,
      delivered_at = excluded.delivered_at, dead_lettered_at = excluded.dead_lettered_at, error_group = excluded.error_group,
      attempt_log = case when excluded.attempt_log is null then known.attempt_log
        else coalesce(known.attempt_log, '[]') || (
          excluded.attempt_log -> 0 || jsonb_build_object('attempt', known.attempts + 1)
        ) end
    where known.is_open and known.replays = coalesce((
      select replays from attempt where attempt.lane = known.lane and attempt.position = known.position
    ), known.replays)
  ),
  dead as (
    insert into error_groups (key, topic, subscriber, kind, message)
    select distinct on (1) error_group ->> 'key', topic, subscriber, error_group ->> 'kind', error_group ->> 'message'
    from attempt where kind = 'dead' order by 1
    on conflict (key) do nothing
  )
  select null into heads;
  perform postbud_make_due_1(array_agg(lane), array_agg(ordering_key), now_at)
  from (
    select distinct attempt.lane, ordering_key
    from jsonb_to_recordset(exceptional) as attempt(lane int, position bigint, kind text), lateral (
        select ordering_key from exceptions where exceptions.lane = attempt.lane and exceptions.position = attempt.position limit 1
      ) as written
    where kind <> 'running' and attempt.lane = any (held)
  ) as touched;
end
$$;

-- Notes which subscribers answer, of those whose subscriptions wait while nobody is there. An attempt that failed as if
-- nobody was there counts for its lane, or for its key in a shared one. Three of them, or one that failed three times, in
-- the same way and without an answer between them, open an outage. Any answer ends it, also an error.
--
-- It is told of what the settlement has recorded, not of what an earlier one had: the lanes that have delivered, and the
-- attempts that have not. `unfinished` says of each: `presence` is `absent`, `present` or null (neither: the relay died, or
-- the subscriber asked to wait), and `is_probe`. The lanes must be locked. One settlement at a time does this, so that two
-- that count lanes of one subscriber do not deadlock.
--
-- What the failures before the outage used up is given back by the relay, which takes the locks that this needs in their
-- order: see lib/bus/deliveries/give-back.ts.
create or replace function postbud_record_presence_1(
  outcomes postbud_outcome_2[], held bigint[], delivered_lanes bigint[], unfinished jsonb, at timestamptz
) returns void language plpgsql as $$
declare
  answering text[];
  has_absent constant boolean := exists (
    select from jsonb_to_recordset(unfinished) as attempt(presence text) where presence = 'absent'
  );
begin
  if not has_absent and not exists (select from absences) and not exists (select from outages where recovered_at is null) then
    return;
  end if;
  perform pg_advisory_xact_lock(36961, 0);
  if exists (select from absences) or exists (select from outages where recovered_at is null) then
    select array_agg(distinct subscriber order by subscriber) into answering
    from unnest(outcomes) as outcome join lanes on lanes.id = outcome.id
    where outcome.waits and outcome.id = any (held) and (
      outcome.id = any (delivered_lanes) or exists (
        select from jsonb_to_recordset(unfinished) as attempt(lane bigint, presence text)
        where attempt.lane = outcome.id and presence = 'present'
      )
    );
    if answering is not null then
      delete from absences where subscriber = any (answering);
      update outages set recovered_at = at where subscriber = any (answering) and recovered_at is null;
    end if;
  end if;
  if has_absent then
    with absent as materialized (
      select subscriber, attempt.entry ->> 'kind' as kind, attempt.entry ->> 'message' as message, attempt.home,
        coalesce(lane_key, '') as lane_key, coalesce(is_probe, false) as is_probe,
        (attempt.entry ->> 'at')::timestamptz as began_at
      from jsonb_to_recordset(unfinished) as attempt(lane bigint, home bigint, position bigint, presence text,
          is_probe boolean, entry jsonb)
        join lanes on lanes.id = attempt.lane
        join deliveries on deliveries.lane_id = attempt.home and deliveries.position = attempt.position
      where presence = 'absent' and attempt.lane = any (held) and (answering is null or not subscriber = any (answering))
    ),
    -- The claim put the next probe off until the lease of this one is over, which is longer than ten seconds. An earlier
    -- time was asked for meanwhile: the subscriber says that it is back, or an operator does.
    probed as (
      update outages set probes = probes + 1, next_probe_at =
        case when next_probe_at <= greatest(at, probed_at + interval '10 seconds') then next_probe_at
          else at + interval '5 minutes' end
      where recovered_at is null and subscriber in (select subscriber from absent where is_probe)
    ),
    counted as (
      insert into absences as known (subscriber, kind, lane_id, lane_key, failures, began_at)
      select subscriber, kind, home, lane_key, count(*), min(began_at) from absent
      where not is_probe and not exists (
        select from outages where outages.subscriber = absent.subscriber and recovered_at is null
      )
      group by 1, 2, 3, 4 order by 1, 2, 3, 4
      on conflict (subscriber, kind, lane_id, lane_key) do update set failures = known.failures + excluded.failures,
        began_at = least(known.began_at, excluded.began_at)
      returning *
    ),
    together as (
      -- The statement does not see its own rows.
      select * from counted
      union all
      select * from absences where subscriber in (select subscriber from counted)
        and (subscriber, kind, lane_id, lane_key) not in (select subscriber, kind, lane_id, lane_key from counted)
    )
    insert into outages (subscriber, kind, message, opened_at, began_at, next_probe_at)
    select distinct on (subscriber) subscriber, kind, coalesce((
      select message from absent where absent.subscriber = together.subscriber and absent.kind = together.kind limit 1
    ), ''), at, (
      select min(began_at) from together as known where known.subscriber = together.subscriber
    ), at + interval '1 minute'
    from together group by subscriber, kind having count(*) >= 3 or max(failures) >= 3
    order by subscriber, count(*) desc
    on conflict (subscriber) do update set kind = excluded.kind, message = excluded.message,
      opened_at = excluded.opened_at, began_at = least(outages.began_at, excluded.began_at), probes = 0,
      probed_at = null, next_probe_at = excluded.next_probe_at, recovered_at = null
    where outages.recovered_at is not null;
    delete from absences using outages
    where outages.subscriber = absences.subscriber and recovered_at is null;
  end if;
end
$$;

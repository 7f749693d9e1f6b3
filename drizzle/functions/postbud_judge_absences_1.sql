-- Decides which attempts that found nobody there count. One does if no outage is open and it is its delivery's first, or the subscriber
-- has answered anybody since the one before it; otherwise the subscriber is silent, an outage is open, and the attempt is a wait for
-- the next probe.
--
-- The first probe comes after a minute, the second five minutes later, and then one every five.
-- @returns the attempts, with those that do not count as waits.
create or replace function postbud_judge_absences_1(exceptional jsonb, held int[], now_at timestamptz) returns jsonb
language plpgsql as $$
#variable_conflict use_column
declare
  judged jsonb;
begin
  with attempt as materialized (
    select number, entry, lanes.subscriber, lanes.id as lane, exceptions.attempted_at,
      coalesce((entry ->> 'is_absent')::boolean, false) as is_absent
    from jsonb_array_elements(exceptional) with ordinality as attempt(entry, number)
      join lanes on lanes.id = (entry ->> 'lane')::int
      left join exceptions on exceptions.lane = lanes.id and exceptions.position = (entry ->> 'position')::bigint
  ),
  verdict as materialized (
    select *, is_absent and lane = any (held) and (
      exists (select from outages where outages.subscriber = attempt.subscriber)
      or attempted_at is not null and not exists (
        select from lanes as other, lateral (
          select from journal
          where journal.lane = other.id and journal.is_answered and journal.at > attempted_at
          order by journal.head desc, journal.number desc limit 1
        ) as answer
        where other.subscriber = attempt.subscriber and other.topic <> 'system.smoke_test.started'
      )
    ) as is_silence
    from attempt
  ),
  silent as (
    insert into outages as known (subscriber, kind, message, opened_at, next_probe_at)
    select distinct on (subscriber) subscriber, entry -> 'entry' ->> 'kind', entry -> 'entry' ->> 'message', now_at,
      now_at + interval '1 minute'
    from verdict where is_silence order by subscriber, number
    on conflict (subscriber) do update set
      probes = known.probes + (known.probed_at is not null)::int,
      -- An earlier time was asked for meanwhile: the subscriber says that it is back, or an operator does.
      next_probe_at = case when known.probed_at is null or known.next_probe_at <= now_at then known.next_probe_at
        else now_at + interval '5 minutes' end,
      probed_at = null
  )
  select jsonb_agg(case when is_silence then entry || jsonb_build_object('kind', 'waited', 'next_attempt_at', now_at,
    'error_group', null, 'halts', false, 'entry', (entry -> 'entry') - 'group' || '{"outcome": "waited"}') else entry end
    order by number)
  into judged from verdict;
  return judged;
end
$$;

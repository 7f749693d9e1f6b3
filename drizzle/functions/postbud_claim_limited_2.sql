-- Claims lanes of a subscriber that has a rate or a concurrency, as far as these allow, over all relays together. The row of its
-- limits is locked for it. Nobody waits for that: while another claim has it, the lanes are left to that one.
--
-- The rate is kept by the time until which deliveries are taken at an even pace (GCRA). At most a twentieth of it comes at once. What
-- is charged is what was claimed. The concurrency is kept by the handlers of all leases that are live.
--
-- Of a subscriber that does not answer, only its lane of `probes` is claimed. Lanes take turns by when they were served last. So that keys take turns too, a lane with keys hands over nothing from the log: all of
-- it becomes exceptions, whose keys take turns by when they became due, a few deliveries each.
create or replace function postbud_claim_limited_2(
  limited text, probes int[], token uuid, names text[], versions int[], leases_ms int[], waits boolean[], max_lanes int, max_deliveries int,
  -- Of each lane, how much of the log becomes exceptions.
  max_parked int, now_at timestamptz,
  out claimed json,
  -- When the next delivery is allowed; null where none waits for that.
  out next_in_ms float8
) language plpgsql as $$
#variable_conflict use_column
declare
  bound subscriber_limits;
  step interval;
  tokens int := max_deliveries;
  room int := least(max_lanes, 64);
  due int[];
  keyed int[];
  used int;
begin
  select * into bound from subscriber_limits where subscriber = limited for update skip locked;
  if not found then
    next_in_ms := 25;
    return;
  end if;
  if bound.concurrency is not null then
    room := least(room, bound.concurrency - (
      select coalesce(sum(newest.handlers), 0) from lanes, lateral (
        select handlers, leased_until from journal where lane = lanes.id order by head desc, number desc limit 1
      ) as newest
      where subscriber = limited and newest.leased_until > now_at
    ));
  end if;
  if bound.rate_count is not null then
    step := bound.rate_ms * interval '1 millisecond' / bound.rate_count;
    -- A later time is of a clock that was ahead.
    bound.taken_until := least(greatest(bound.taken_until, now_at), now_at + greatest(1, bound.rate_count / 20) * step);
    tokens := least(tokens, greatest(1, bound.rate_count / 20)
      - ceil(extract(epoch from bound.taken_until - now_at) / extract(epoch from step) - 1e-6)::int);
    room := least(room, tokens);
  end if;
  select postbud_find_due_2(array_agg(name), array_agg(is_waiting), max_lanes, now_at) into due
  from unnest(names, waits) as asked(name, is_waiting) where split_part(name, ' ', 2) = limited;
  due := array(select id from lanes where id = any (probes) and subscriber = limited) || due;
  -- Whoever locks several lanes takes them in order; these are others than those that the turn has locked.
  due := array(select id from unnest(due) with ordinality as due(id, nth) where pg_try_advisory_xact_lock(36965, id) order by nth);
  -- During a backfill newer deliveries stay behind what it writes.
  keyed := array(
    select id from lanes
    where id = any (due) and slot > 0 and not exists (
      select from backfills where backfills.topic = lanes.topic and backfills.subscriber = limited and ended_at is null
    )
  );
  if keyed <> '{}' then
    perform postbud_park_1(keyed, greatest(1, max_parked / cardinality(keyed)), now_at);
  end if;
  if room > 0 and due is not null then
    due := due[:room];
    select one.claimed into claimed from postbud_claim_2(due, null, null, probes, token, names, versions, leases_ms, waits, tokens,
      greatest(1, room / greatest(1, cardinality(due))), now_at) as one;
    select sum(case json_typeof(one -> 'rows') when 'array' then json_array_length(one -> 'rows') else 0 end
      + case json_typeof(one -> 'positions') when 'array' then json_array_length(one -> 'positions') else 0 end)
    into used from json_array_elements(claimed -> 'lanes') as one;
    update subscriber_limits set taken_until = case when rate_count is not null then bound.taken_until + coalesce(used, 0) * step
      else taken_until end
    where subscriber = limited;
  end if;
  if bound.rate_count is not null and cardinality(due) > 0 and tokens <= coalesce(used, 0) then
    next_in_ms := greatest(25, extract(epoch from
      bound.taken_until + (coalesce(used, 0) - greatest(1, bound.rate_count / 20) + 1) * step - now_at) * 1000);
  end if;
end
$$;

-- Claims lanes of subscribers that have a rate or a concurrency, as far as these allow, over all relays together. The row of
-- a subscriber's limits is locked for it. Nobody waits for that: while another claim has it, the lanes are left to that one.
--
-- The rate is kept by the time until which deliveries are taken at an even pace (GCRA). At most a twentieth of the rate comes
-- at once. What is charged is what was claimed, a few deliveries a lane, so what a run gives back unused is little.
--
-- The lanes take turns by the times when they became due: a lane that goes on is due anew, behind the others. So that keys
-- take turns too, a shared lane is not leased here: its keys get lanes of their own, as keys in trouble do.
--
-- While a subscriber does not answer, one delivery probes, when that is due and the limits allow it (postbud_find_due_1).
create or replace function postbud_claim_limited_1(
  token uuid, names text[], versions int[], leases_ms float8[], waits boolean[], max_lanes int, max_deliveries int,
  at timestamptz,
  -- In: what was claimed before it.
  inout claimed json,
  out has_found boolean,
  -- When a rate allows the next delivery; null where none waits for that.
  out next_in_ms float8
) language plpgsql set enable_seqscan = off as $$
declare
  most_lanes constant int := 64;
  -- Deliveries of a lane, so that the others' turn comes soon.
  most_of_lane constant int := 16;
  limited text;
  bound subscriber_limits;
  step interval;
  room int;
  tokens int;
  is_bounded boolean;
  may_wait boolean;
  may_probe boolean;
  is_silent boolean;
  due record;
  keys record;
  ids bigint[];
  asked int[];
  turns int[];
  has_spread boolean;
  has_shared boolean;
  locked record;
  leased json;
  used int;
begin
  has_found := false;
  for limited, may_wait in
    select split_part(name, ' ', 2), bool_and(is_waiting)
    from unnest(names, waits) as asked(name, is_waiting)
      join subscriber_limits on subscriber_limits.subscriber = split_part(name, ' ', 2), lateral (
      select from lanes
      where lanes.topic = split_part(name, ' ', 1) and lanes.subscriber = split_part(name, ' ', 2) and lanes.due_at <= at limit 1
    ) as first
    group by 1 order by 1
  loop
    select next_probe_at <= at into may_probe from outages
    where may_wait and outages.subscriber = limited and recovered_at is null;
    is_silent := found;
    continue when not may_probe;
    select * into bound from subscriber_limits where subscriber_limits.subscriber = limited for update skip locked;
    if not found then
      next_in_ms := least(next_in_ms, 25);
      continue;
    end if;
    if is_silent then
      perform from outages
      where outages.subscriber = limited and recovered_at is null and next_probe_at <= at for update skip locked;
      continue when not found;
    end if;
    room := least(max_lanes, case when is_silent then 1 else most_lanes end);
    if bound.concurrency is not null then
      bound.held := array(
        select id from lanes where id = any (bound.held) and lease_token is not null and leased_until > at
      );
      room := least(room, bound.concurrency - cardinality(bound.held));
    end if;
    tokens := max_deliveries;
    if bound.rate_count is not null then
      step := bound.rate_ms * interval '1 millisecond' / bound.rate_count;
      -- A later time is of a clock that was ahead.
      bound.taken_until := least(greatest(bound.taken_until, at), at + greatest(1, bound.rate_count / 20) * step);
      tokens := least(tokens, greatest(1, bound.rate_count / 20)
        - ceil(extract(epoch from bound.taken_until - at) / extract(epoch from step) - 1e-6)::int);
      room := least(room, tokens);
    end if;
    ids := null;
    used := 0;
    while room > 0 loop
      ids := null;
      asked := null;
      has_spread := false;
      has_shared := false;
      for due in
        select next.*, turn from unnest(names, versions) with ordinality as one(name, version, turn), lateral (
          select id, slot, home_id, lease_token, head, careful_to, lanes.due_at from lanes
          where lanes.topic = split_part(name, ' ', 1) and lanes.subscriber = limited and lanes.due_at <= at
            and coalesce(waits_for_version, 0) <= one.version
          order by lanes.due_at limit room for update skip locked
        ) as next
        where split_part(name, ' ', 2) = limited
          and not exists (select from pauses where pauses.subscriber = limited and pauses.topic in ('', split_part(name, ' ', 1)))
        order by next.due_at limit room
      loop
        -- Once the lane is locked: who begins a backfill locks it too. Older deliveries are still to come then, before those
        -- whose keys would get lanes.
        if due.slot is null or due.home_id is not null or due.lease_token is not null or is_silent
          or due.head < due.careful_to
          or exists (select from backfills where ended_at is null and backfills.subscriber = limited)
        then
          has_shared := has_shared or due.slot is not null and due.home_id is null;
          ids := ids || due.id;
          asked := asked || due.turn::int;
        else
          has_spread := true;
          with waiting as materialized (
            select deliveries.position, deliveries.lane_key
            from postbud_next_2(due.id, null, due.slot, null, due.head, most_lanes) as next
              join deliveries on deliveries.lane_id = due.id and deliveries.position = next.position
          ),
          spread as (
            insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, due_at)
            select topic, subscriber, slot, lane_key, id, careful_to, first - 1, first,
              least(due.due_at + interval '1 microsecond' * row_number() over (order by first), at)
            from (select lane_key, min(position) as first from waiting group by lane_key) as key, lanes as home
            where home.id = due.id
            on conflict (home_id, held_key) where home_id is not null
              do update set head = least(lanes.head, excluded.head)
          )
          select count(*) as deliveries, max(position) as last into keys from waiting;
          update lanes set head = case when keys.deliveries < most_lanes then tail else keys.last end,
            due_at = case when keys.deliveries < most_lanes then null else at end
          where id = due.id;
        end if;
      end loop;
      exit when ids is not null or not has_spread;
    end loop;
    if ids is not null then
      has_found := true;
      -- In a newer snapshot, now that they are locked.
      locked := postbud_lock_lanes_1(ids);
      turns := null;
      for place in 1..cardinality(locked.ids) loop
        turns[place] := asked[array_position(ids, locked.ids[place])];
      end loop;
      is_bounded := exists (select from halts) or exists (select from backfills where ended_at is null);
      leased := postbud_lease_1(token, versions, leases_ms, locked.addresses, locked.rows, turns, null, null,
        case when is_silent then ids end, is_bounded,
        -- A lane that keys share would be handed over to a handler for each of them.
        cardinality(ids) * case when has_shared and bound.concurrency is not null then 1
          else least(most_of_lane, tokens / cardinality(ids)) end, at, null, null);
      select sum(json_array_length(one -> 'positions')) into used from json_array_elements(leased -> 'lanes') as one;
      claimed := json_build_object(
        'lanes', coalesce((claimed -> 'lanes')::jsonb, '[]') || (leased -> 'lanes')::jsonb,
        -- Null where no lane has any.
        'events', coalesce(nullif((claimed -> 'events')::jsonb, 'null'), '[]')
          || coalesce(nullif((leased -> 'events')::jsonb, 'null'), '[]'));
      update subscriber_limits set held = case when concurrency is not null then bound.held || ids else '{}' end,
        taken_until = case when rate_count is not null then bound.taken_until + used * step else taken_until end
      where subscriber_limits.subscriber = limited;
      if is_silent then
        -- Puts the next probe off, until this one's lease has run out.
        update outages set probed_at = at, next_probe_at = at + leases_ms[asked[1]] * interval '1 millisecond'
        where outages.subscriber = limited;
      end if;
    end if;
    if bound.rate_count is not null and tokens <= used then
      next_in_ms := least(next_in_ms, greatest(25, extract(epoch from
        bound.taken_until + (used - greatest(1, bound.rate_count / 20) + 1) * step - at) * 1000));
    end if;
  end loop;
end
$$;

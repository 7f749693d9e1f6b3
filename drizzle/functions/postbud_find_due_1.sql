-- Finds due lanes that no relay holds, and locks them. A lane whose lease ran out is due like any other: its relay died.
--
-- `names` are the subscriptions that the relay hands over, topic and subscriber, asked in this order. While a subscriber does
-- not answer, its subscriptions that wait are left out, except for one delivery when a probe is due.
create or replace function postbud_find_due_1(
  names text[], versions int[], leases_ms float8[], waits boolean[], is_down boolean, max_lanes int, at timestamptz,
  out ids bigint[], out turns int[], out probes bigint[]
) language plpgsql as $$
declare
  silent text;
  probe record;
begin
  -- 64 lanes of a subscription at most, so that one with many keys in trouble leaves room for others.
  select array_agg(id), array_agg(turn) into ids, turns
  from (
    select due.id, turn
    from (
      select split_part(name, ' ', 1) as topic, split_part(name, ' ', 2) as subscriber, version, turn
      from unnest(names, versions) with ordinality as asked(name, version, turn)
    ) as asked,
      lateral (
        select id from lanes
        where lanes.topic = asked.topic and lanes.subscriber = asked.subscriber and lanes.due_at <= at
          and coalesce(waits_for_version, 0) <= asked.version
        order by due_at limit 64 for update skip locked
      ) as due
    where not exists (select from pauses where pauses.subscriber = asked.subscriber and pauses.topic in ('', asked.topic))
      and not (is_down and waits[turn]
        and exists (select from outages where outages.subscriber = asked.subscriber and recovered_at is null))
    limit max_lanes
  ) as found;
  if is_down then
    -- Whoever takes a probe puts the next one off, until its lease has run out.
    for silent in
      select subscriber from outages
      where recovered_at is null and next_probe_at <= at
        and subscriber = any (array(
          select split_part(name, ' ', 2) from unnest(names, waits) as asked(name, waits) where asked.waits
        ))
      order by subscriber for update skip locked
    loop
      select due.id, turn into probe
      from unnest(names, versions, waits) with ordinality as asked(name, version, waits, turn),
        lateral (
          select id, due_at from lanes
          where lanes.topic = split_part(name, ' ', 1) and lanes.subscriber = silent and lanes.due_at <= at
            and coalesce(waits_for_version, 0) <= asked.version
          order by due_at limit 1 for update skip locked
        ) as due
      where asked.waits and split_part(name, ' ', 2) = silent
        and not exists (
          select from pauses where pauses.subscriber = silent and pauses.topic in ('', split_part(name, ' ', 1))
        )
      order by due_at limit 1;
      if found then
        update outages set probed_at = at, next_probe_at = at + leases_ms[probe.turn] * interval '1 millisecond'
        where subscriber = silent;
        probes := probes || probe.id;
        ids := probe.id || ids;
        turns := probe.turn || turns;
      end if;
    end loop;
    ids := ids[1:max_lanes];
    turns := turns[1:max_lanes];
  end if;
end
$$;

-- Finds, for each of these subscriptions' subscribers that does not answer and is to be probed, a lane that has something to hand
-- over. Whoever takes a probe puts the next one off, until its lease has run out.
create or replace function postbud_find_probes_1(names text[], waits boolean[], leases_ms int[], now_at timestamptz) returns int[]
language plpgsql as $$
declare
  silent text;
  probe record;
  probes int[] := '{}';
begin
  for silent in
    select outages.subscriber from outages
    where next_probe_at <= now_at and outages.subscriber in (
      select split_part(name, ' ', 2) from unnest(names, waits) as asked(name, waits) where asked.waits
    )
    order by 1 for update skip locked
  loop
    select lane.id, turn into probe
    from unnest(names, waits) with ordinality as asked(name, waits, turn)
      join lanes as lane on lane.topic = split_part(name, ' ', 1) and lane.subscriber = split_part(name, ' ', 2), lateral (
        select at, head, leased_until from journal where journal.lane = lane.id order by head desc, number desc limit 1
      ) as newest
    where asked.waits and lane.subscriber = silent and (newest.leased_until is null or newest.leased_until <= now_at)
      and (
        exists (select from exceptions where exceptions.lane = lane.id and due_at <= now_at limit 1)
        or (select position from log where log.stream = lane.stream order by position desc limit 1) > newest.head
          and (lane.slot > 0 or not exists (select from exceptions where exceptions.lane = lane.id and is_open limit 1))
      )
      and not exists (select from pauses where pauses.subscriber = silent and pauses.topic in ('', lane.topic))
    order by newest.at limit 1;
    if found then
      update outages set probed_at = now_at, next_probe_at = now_at + leases_ms[probe.turn] * interval '1 millisecond'
      where subscriber = silent;
      probes := probes || probe.id;
    end if;
  end loop;
  return probes;
end
$$;

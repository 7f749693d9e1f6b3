-- Leases lanes and reads their next deliveries. The lanes are locked, and `turns` say which of the asked subscriptions each is
-- leased for; null for one that is only lengthened, and then made due if it was idle. `position` and `event_id`: the single
-- delivery that was just written to the lanes that are lengthened.
--
-- A lane at its front gives nothing. The settlement then makes it due no more, until the front moves.
create or replace function postbud_lease_1(
  token uuid, versions int[], leases_ms float8[], addresses tid[], lane_rows lanes[], turns int[], tails bigint[],
  firsts timestamptz[], probes bigint[], is_bounded boolean, max_deliveries int, at timestamptz,
  "position" bigint, event_id uuid
) returns json language plpgsql as $$
#variable_conflict use_column
declare
  -- Payloads of 16 MiB at most, but one for each lane: a claim of nothing but webhooks of the largest size would otherwise be
  -- more than a string can hold.
  most_bytes constant int := 16 * 1024 * 1024;
  lane lanes;
  place int;
  turn int;
  until timestamptz;
  changed lanes[] := '{}';
  leased int[] := '{}';
  homes bigint[] := '{}';
  home_untils timestamptz[] := '{}';
  asked int;
  is_plain boolean;
  batch record;
  found_lanes json[] := '{}';
  found_positions bigint[] := '{}';
  found_events uuid[] := '{}';
begin
  for place in 1..cardinality(lane_rows) loop
    lane := lane_rows[place];
    turn := turns[place];
    lane.tail := greatest(lane.tail, tails[place]);
    if turn is null then
      lane.due_at := coalesce(lane.due_at, case when lane.lease_token is null then least(firsts[place], at) end);
    else
      until := at + leases_ms[turn] * interval '1 millisecond';
      lane.lease_token := token;
      lane.leased_until := until;
      lane.held_version := versions[turn];
      lane.due_at := case when lane.home_id is not null then until end;
      leased := leased || place;
      if lane.home_id is null then
        homes := homes || lane.id;
        home_untils := home_untils || until;
      end if;
    end if;
    changed := changed || lane;
  end loop;
  update lanes set tail = changed.tail, lease_token = changed.lease_token, leased_until = changed.leased_until,
    held_version = changed.held_version, due_at = changed.due_at
  from unnest(addresses, changed) as changed(address)
  where lanes.ctid = changed.address;
  if cardinality(leased) = 0 then
    return null;
  end if;
  if cardinality(homes) = 1 then
    insert into leases values (home_untils[1], homes);
  elsif cardinality(homes) > 1 then
    insert into leases
    select until, array_agg(id) from unnest(home_untils, homes) as leased(until, id) group by until;
  end if;
  asked := greatest(1, max_deliveries / cardinality(leased));
  foreach place in array leased loop
    lane := lane_rows[place];
    is_plain := not is_bounded and lane.home_id is null and lane.head >= lane.careful_to
      and not coalesce(lane.id = any (probes), false);
    if is_plain and lane.slot is not null then
      is_plain := not exists (select from lanes as key where key.home_id = lane.id);
    end if;
    if is_plain and position is not null and tails[place] = position and lane.head = lane.tail then
      found_positions := found_positions || position;
      found_events := found_events || event_id;
      found_lanes := found_lanes || json_build_object('id', lane.id, 'home', lane.id, 'is_shared', lane.slot is not null,
        'topic', lane.topic, 'subscriber', lane.subscriber, 'head', lane.head, 'newest', position, 'is_probe', false,
        'lapsed_at', case when lane.lease_token is not null then extract(epoch from coalesce(lane.due_at, lane.leased_until)) * 1000 end,
        'lapsed_version', lane.held_version, 'is_whole', asked > 1, 'positions', array[position], 'begun', null);
    else
      batch := postbud_next_batch_1(lane, case when lane.head < lane.careful_to or lane.id = any (probes) then 1 else asked end,
        most_bytes / cardinality(leased), is_bounded);
      found_positions := found_positions || batch.positions;
      found_events := found_events || batch.event_ids;
      found_lanes := found_lanes || json_build_object('id', lane.id, 'home', coalesce(lane.home_id, lane.id),
        'is_shared', lane.slot is not null and lane.home_id is null, 'topic', lane.topic, 'subscriber', lane.subscriber,
        'head', lane.head + (batch.is_whole is null)::int, 'newest', coalesce(batch.front, greatest(lane.tail, tails[place])),
        'is_probe', coalesce(lane.id = any (probes), false),
        'lapsed_at', case when lane.lease_token is not null then extract(epoch from coalesce(lane.due_at, lane.leased_until)) * 1000 end,
        'lapsed_version', lane.held_version, 'is_whole', batch.is_whole, 'positions', batch.positions, 'begun', batch.begun);
    end if;
  end loop;
  return json_build_object('lanes', found_lanes, 'events', (
    select json_agg(json_build_array(position, id, topic, payload, version, producer,
      date_part('epoch', created_at) * 1000, seq, ordering_key, correlation_id, causation_id, traceparent,
      erased_at is not null))
    -- Each once, however many lanes carry it: it stands at the same position in all of them.
    from (
      select distinct on (position) position, event_id
      from unnest(found_positions, found_events) as found(position, event_id) order by position
    ) as found join events on id = event_id
  ));
end
$$;

-- Writes the deliveries of these markers, which it deletes, in (created_at, seq) order.
create or replace function postbud_place_2(
  marker_ids tid[],
  out events int,
  -- The lanes to be lengthened, up to where, and since when they are due. Null where there is none: of events for nobody.
  out lanes bigint[],
  out tails bigint[],
  out firsts timestamptz[],
  out changes postbud_change_1[],
  -- Where it is a single event: its place and its id.
  out "position" bigint,
  out event_id uuid
) language plpgsql as $$
#variable_conflict use_column
declare
  one record;
  batch record;
  ids bigint[];
  subscriber text;
begin
  events := 0;
  changes := '{}';
  if cardinality(marker_ids) = 1 then
    delete from awaiting_fan_out where ctid = marker_ids[1]
    returning topic, created_at, awaiting_fan_out.event_id, ordering_key, payload_bytes, subscribers,
      case when ordering_key <> '' then postbud_slot(ordering_key) end as slot
    into one;
    if found then
      events := 1;
      event_id := one.event_id;
      position := nextval('delivery_positions');
      lanes := postbud_lanes_2(one.topic, one.subscribers, one.slot, position);
      insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key)
      select lane.id, postbud_place_2.position, one.event_id, one.payload_bytes, nullif(one.ordering_key, '')
      from unnest(lanes) as lane(id);
      tails := array_fill(position, array[cardinality(lanes)]);
      firsts := array_fill(one.created_at, array[cardinality(lanes)]);
      if cardinality(lanes) > 0 then
        changes := changes || row(one.topic, '', 1, 0, 0, 0, 0, 0, null, null)::postbud_change_1;
      end if;
      foreach subscriber in array one.subscribers loop
        changes := changes || row(one.topic, subscriber, 1, 0, 0, 0, 0, 0, null, null)::postbud_change_1;
      end loop;
      lanes := nullif(lanes, '{}');
    end if;
    return;
  end if;
  for batch in
    with picked as (
      -- By address, not by a join, which would read all that waits.
      delete from awaiting_fan_out where ctid = any (marker_ids) returning awaiting_fan_out.*
    ),
    placed as (
      select *, nextval('delivery_positions') as position
      from (select * from picked order by created_at, seq) as in_order
    )
    select topic, slot, subscribers, array_agg(position order by position) as positions,
      array_agg(event_id order by position) as event_ids,
      array_agg(nullif(ordering_key, '') order by position) as keys,
      array_agg(payload_bytes order by position) as bytes, max(position) as tail, min(created_at) as first_at
    from placed, lateral (
      select case when ordering_key <> '' then postbud_slot(ordering_key) end as slot
    ) as addressed
    group by topic, slot, subscribers
  loop
    events := events + cardinality(batch.positions);
    ids := postbud_lanes_2(batch.topic, batch.subscribers, batch.slot, batch.tail);
    insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key)
    select lane.id, position, event_id, payload_bytes, ordering_key
    from unnest(ids) as lane(id), unnest(batch.positions, batch.event_ids, batch.bytes, batch.keys)
      as placed(position, event_id, payload_bytes, ordering_key);
    lanes := lanes || ids;
    tails := tails || array_fill(batch.tail, array[cardinality(ids)]);
    firsts := firsts || array_fill(batch.first_at, array[cardinality(ids)]);
    -- The event's own, then those of its subscribers. One for nobody waits for nothing.
    if cardinality(ids) > 0 then
      changes := changes
        || row(batch.topic, '', cardinality(batch.positions), 0, 0, 0, 0, 0, null, null)::postbud_change_1;
    end if;
    foreach subscriber in array batch.subscribers loop
      changes := changes
        || row(batch.topic, subscriber, cardinality(batch.positions), 0, 0, 0, 0, 0, null, null)::postbud_change_1;
    end loop;
  end loop;
  lanes := nullif(lanes, '{}');
end
$$;

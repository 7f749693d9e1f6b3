-- When an operator had the personal data of the event overwritten. Null for nearly every event.
alter table events add column erased_at timestamptz;--> statement-breakpoint
-- The claim of migration 0030, whose events have one value more, at the end: an earlier release, which reads them by
-- position, does not see it.
-- Leases due lanes that no relay holds and reads their next deliveries. A lane whose lease ran out is due like any other:
-- its relay died.
--
-- `topics`, `subscribers`, `versions`, `leases_ms` and `waits` are the subscriptions that the relay hands over, asked in this
-- order. While a subscriber does not answer, its subscriptions that wait are left out, except for one delivery when a probe
-- is due.
-- A lane at its front gives nothing. The settlement then makes it due no more, until the front moves.
-- `among`: these lanes only; null for all that are due.
create or replace function postbud_claim_2(
  token uuid, topics text[], subscribers text[], versions int[], leases_ms float8[], waits boolean[], among bigint[],
  max_lanes int, max_deliveries int, at timestamptz
) returns json language plpgsql as $$
declare
  ids bigint[];
  turns int[];
  lane record;
  batch record;
  found_lanes json[] := '{}';
  found_positions bigint[] := '{}';
  found_events uuid[] := '{}';
  is_down boolean := exists (select from outages where recovered_at is null);
  is_bounded boolean;
  silent text;
  probe record;
  probes bigint[] := '{}';
begin
  if among is not null then
    select array_agg(lanes.id), array_agg(turn) into ids, turns
    from lanes join unnest(topics, subscribers) with ordinality as asked(topic, subscriber, turn)
      on asked.topic = lanes.topic and asked.subscriber = lanes.subscriber
    where lanes.id = any (among) and lanes.due_at <= at and coalesce(waits_for_version, 0) <= versions[turn]
      and not exists (select from pauses where pauses.subscriber = asked.subscriber and pauses.topic in ('', asked.topic))
      and not (is_down and waits[turn]
        and exists (select from outages where outages.subscriber = asked.subscriber and recovered_at is null));
  elsif (select min(due_at) from lanes) <= at then
    -- 64 lanes of a subscription at most, so that one with many keys in trouble leaves room for others.
    select array_agg(id), array_agg(turn) into ids, turns
    from (
      select due.id, turn
      from unnest(topics, subscribers, versions) with ordinality as asked(topic, subscriber, version, turn),
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
  end if;
  if is_down then
    -- Whoever takes a probe puts the next one off, until its lease has run out.
    for silent in
      select subscriber from outages
      where recovered_at is null and next_probe_at <= at
        and subscriber = any (array(select name from unnest(subscribers, waits) as asked(name, waits) where asked.waits))
      order by subscriber for update skip locked
    loop
      select due.id, turn into probe
      from unnest(topics, subscribers, versions, waits) with ordinality as asked(topic, subscriber, version, waits, turn),
        lateral (
          select id, due_at from lanes
          where lanes.topic = asked.topic and lanes.subscriber = asked.subscriber and lanes.due_at <= at
            and coalesce(waits_for_version, 0) <= asked.version
          order by due_at limit 1 for update skip locked
        ) as due
      where asked.waits and asked.subscriber = silent
        and not exists (select from pauses where pauses.subscriber = asked.subscriber and pauses.topic in ('', asked.topic))
      order by due_at limit 1;
      if found then
        update outages set probed_at = at, next_probe_at = at + leases_ms[probe.turn] * interval '1 millisecond'
        where subscriber = silent;
        probes := probes || probe.id;
        ids := probe.id || ids;
        turns := probe.turn || turns;
      end if;
    end loop;
  end if;
  if ids is null then
    return null;
  end if;
  for lane in
    with due as materialized (
      select lanes.id, lanes.due_at, lanes.lease_token, lanes.held_version, turn
      from unnest(ids, turns) as found(id, turn) join lanes on lanes.id = found.id
      where lanes.due_at <= at
      limit max_lanes
      for update of lanes skip locked
    ),
    leased as (
      update lanes set lease_token = token, due_at = at + leases_ms[turn] * interval '1 millisecond',
        held_version = versions[turn]
      from due where lanes.id = due.id
      returning lanes.id, lanes.home_id, lanes.held_key, lanes.slot, lanes.topic, lanes.subscriber, lanes.head,
        lanes.tail, lanes.careful_to, case when due.lease_token is not null then due.due_at end as lapsed_at,
        due.held_version as lapsed_version
    )
    -- Payloads of 16 MiB at most, but one for each lane: a claim of nothing but webhooks of the largest size would
    -- otherwise be more than a string can hold.
    select leased.*, greatest(1, max_deliveries / count(*) over ()::int) as asked,
      16 * 1024 * 1024 / count(*) over () as asked_bytes, null::bigint as front
    from leased
  loop
    if lane.head < lane.careful_to or lane.id = any (probes) then
      lane.asked := 1;
    end if;
    -- Once all lanes are leased: a backfill that begins later waits for them.
    if is_bounded is null then
      is_bounded := exists (select from halts) or exists (select from backfills where ended_at is null);
    end if;
    if is_bounded then
      lane.front := postbud_front_1(
        lane.topic, lane.subscriber, coalesce(lane.home_id, lane.id), nullif(lane.held_key, ''));
    end if;
    select coalesce(array_agg(next.position order by next.position) filter (where fits), '{}') as positions,
      coalesce(array_agg(event_id order by next.position) filter (where fits), '{}') as event_ids,
      json_agg(json_build_array(next.position, attempts, replays, extract(epoch from next_attempt_at) * 1000, backfilled))
        filter (where fits and (attempts > 0 or replays > 0 or next_attempt_at is not null or backfilled)) as begun,
      count(*) as found, coalesce(bool_and(fits), true) as fits
    into batch
    from (
      select *, sum(payload_bytes) over (order by next.position) - payload_bytes < lane.asked_bytes as fits
      from postbud_next_2(lane.id, lane.home_id, lane.slot, lane.held_key, lane.head, lane.asked) as next
      where lane.front is null or next.position <= lane.front
    ) as next;
    found_positions := found_positions || batch.positions;
    found_events := found_events || batch.event_ids;
    found_lanes := found_lanes || json_build_object('id', lane.id, 'home', coalesce(lane.home_id, lane.id),
      'is_shared', lane.slot is not null and lane.home_id is null, 'topic', lane.topic, 'subscriber', lane.subscriber,
      'head', lane.head, 'newest', coalesce(lane.front, lane.tail), 'is_probe', lane.id = any (probes), 'lapsed_at', extract(epoch from lane.lapsed_at) * 1000,
      'lapsed_version', lane.lapsed_version, 'is_whole', batch.found < lane.asked and batch.fits,
      'positions', batch.positions, 'begun', batch.begun);
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

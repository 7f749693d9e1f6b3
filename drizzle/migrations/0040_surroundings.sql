-- Rows that should not exist, and clocks that went back: what the bus set aside so that it stops nothing else. An operator
-- repairs them. `found` says what was found, as JSON.
CREATE TABLE "set_aside" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "set_aside_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" timestamp with time zone NOT NULL,
	"kind" text NOT NULL,
	"topic" text NOT NULL,
	"event_id" uuid,
	"found" jsonb NOT NULL,
	"repaired_at" timestamp with time zone,
	"repaired_by" text,
	"reason" text,
	CONSTRAINT "set_aside_repaired" CHECK ((repaired_at is null) = (repaired_by is null))
);
--> statement-breakpoint
CREATE INDEX "set_aside_open" ON "set_aside" USING btree ("topic","kind") WHERE repaired_at is null;--> statement-breakpoint
-- Raises where a turn or a settlement would decide by an old snapshot. In REPEATABLE READ a turn that waited for the fan-out
-- lock does not see what was committed meanwhile, and fans out a later event first.
create or replace function postbud_require_read_committed_1() returns void language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'PB003',
      message = format('the event bus decides in READ COMMITTED only, and this transaction is in %s',
        upper(current_setting('transaction_isolation'))),
      hint = 'begin it with: begin isolation level read committed';
  end if;
end
$$;--> statement-breakpoint

-- Writes the deliveries of these markers, which it deletes, in (created_at, seq) order. `by_slot` says of which topics all
-- lanes have slots: where release 0.2 has made lanes of keys, each key is looked up by itself.
create or replace function postbud_place_1(
  marker_ids tid[], by_slot text[],
  out events int,
  -- The lanes to be lengthened, up to where, and since when they are due.
  out lanes bigint[],
  out tails bigint[],
  out firsts timestamptz[],
  out changes postbud_change_1[]
) language plpgsql as $$
declare
  batch record;
  ids bigint[];
begin
  events := 0;
  for batch in
    with picked as (
      -- By address, not by a join, which would read all that waits.
      delete from awaiting_fan_out where ctid = any (marker_ids) returning awaiting_fan_out.*
    ),
    placed as (
      select *, nextval('delivery_positions') as position
      from (select * from picked order by created_at, seq) as in_order
    )
    select topic, slot, old_key, subscribers, array_agg(position order by position) as positions,
      array_agg(event_id order by position) as event_ids,
      array_agg(nullif(ordering_key, '') order by position) as keys,
      array_agg(payload_bytes order by position) as bytes, max(position) as tail, min(created_at) as first_at
    from placed, lateral (
      select case when ordering_key <> '' then postbud_slot(ordering_key) end as slot,
        case when ordering_key <> '' and not topic = any (by_slot) then ordering_key end as old_key
    ) as addressed
    group by topic, slot, old_key, subscribers
  loop
    events := events + cardinality(batch.positions);
    ids := postbud_lanes_1(batch.topic, batch.subscribers, batch.slot, batch.old_key, batch.tail);
    insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key)
    select lane.id, position, event_id, payload_bytes, case when lane.is_shared then ordering_key end
    from (
      select id, slot is not null as is_shared from lanes as lane where id = any (ids)
    ) as lane, unnest(batch.positions, batch.event_ids, batch.bytes, batch.keys)
      as placed(position, event_id, payload_bytes, ordering_key);
    lanes := lanes || ids;
    tails := tails || array_fill(batch.tail, array[cardinality(ids)]);
    firsts := firsts || array_fill(batch.first_at, array[cardinality(ids)]);
    changes := changes || array(
      select row(batch.topic, subscriber, cardinality(batch.positions), 0, 0, 0, 0, 0, null, null)::postbud_change_1
      from unnest(batch.subscribers || ''::text) as subscriber
    );
  end loop;
end
$$;--> statement-breakpoint

-- Fans out: writes one delivery for each subscriber that an event names, for the events whose place in the order is
-- certain, in (created_at, seq) order. The lanes are not touched: the caller lengthens them, since it locks all that it
-- changes together.
--
-- `emit` takes a shared lock on its topic before it reads the clock. So an event created before `at` belongs to a
-- transaction that is visible to the statements after the one that reads the locks, or that held its lock then. One
-- fan-out at a time, so that positions are drawn in the order of their commits. While another one runs, this waits for it
-- if it may: whoever holds no other lock. Else it does nothing.
--
-- `fence` says of each lock which transactions must end before the events of a moment may be fanned out: it waits for
-- exactly those, not for silence, for a topic with a new emitter at every look is never quiet. What comes back as `fence`
-- goes into the next call. A prepared transaction survives a restart of the server, but under another name: so one that was
-- not there before may be any of those that were.
--
-- With `is_careful` each event is fanned out by itself, and one that cannot be is set aside: a row that should not exist
-- stops nothing but itself.
create or replace function postbud_fan_out_2(
  inout fence jsonb,
  may_wait boolean,
  max_events int,
  is_careful boolean,
  out at timestamptz,
  out events int,
  -- Whether there are events that do not say whom they are for: releases up to 0.1 wrote them.
  out has_unaddressed boolean,
  -- The lanes to be lengthened, up to where, and since when they are due.
  out lanes bigint[],
  out tails bigint[],
  out firsts timestamptz[],
  out changes postbud_change_1[],
  -- Whether events were recorded at a time that the clock has not come to.
  out is_ahead boolean
) language plpgsql as $$
declare
  holders jsonb;
  passed jsonb;
  topics text[];
  untils timestamptz[];
  by_slot text[];
  marker_ids tid[];
  marker_id tid;
  placed record;
begin
  events := 0;
  if may_wait then
    perform pg_advisory_xact_lock(36952, 0);
  elsif not pg_try_advisory_xact_lock(36952, 0) then
    return;
  end if;
  at := clock_timestamp();
  select jsonb_object_agg(lock, transactions) into holders
  from (
    select objid::text as lock, jsonb_agg(virtualtransaction) as transactions from pg_locks
    where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = 36951 and objsubid = 2
      and database = (select oid from pg_database where datname = current_database())
    group by objid
  ) as held;
  -- From each topic to the next: few wait, and to ask for all of them costs more than to fan out one event.
  with recursive awaiting as (
    (select topic from awaiting_fan_out order by topic limit 1)
    union all
    select (
      select next.topic from awaiting_fan_out as next where next.topic > awaiting.topic order by next.topic limit 1
    )
    from awaiting where awaiting.topic is not null
  )
  -- Another order each time, so that under a flood no topic is always last.
  select array_agg(topic order by random()) into topics from awaiting where topic is not null;
  -- Another fan-out has just taken what there was.
  if topics is null then
    return;
  end if;
  -- Per lock, when its topics may be fanned out up to a moment that is past; and what to wait for next.
  select jsonb_object_agg(lock, memory -> 'at') filter (where memory is not null and remaining is null),
    jsonb_object_agg(lock, case when remaining is null then jsonb_build_object('at', at, 'transactions', holder)
      else memory || jsonb_build_object('transactions', remaining) end)
  into passed, fence
  from (
    select lock, holder, fence -> lock as memory, (
      -- After a restart a prepared transaction has no backend. One like that which was not there before may be one of those
      -- that are gone.
      select jsonb_agg(transaction) from jsonb_array_elements_text(holder) as held(transaction)
      where fence -> lock -> 'transactions' ? transaction or transaction like '-1/%' and exists (
        select from jsonb_array_elements_text(fence -> lock -> 'transactions') as gone(transaction)
        where gone.transaction not like '-1/%' and not holder ? gone.transaction
      )
    ) as remaining
    from jsonb_each(holders) as held(lock, holder)
  ) as known;
  select array_agg(case when coalesce(holders ? lock, false) then (passed ->> lock)::timestamptz else at end order by turn) into untils
  from unnest(topics) with ordinality as awaiting(topic, turn),
    lateral (select (hashtext(topic)::bigint & 4294967295)::text as lock) as named;
  has_unaddressed := exists (select from awaiting_fan_out where subscribers is null);
  if has_unaddressed then
    -- Nothing overtakes an event that does not say whom it is for.
    select array_agg(case when until is not null then least(until, (
      select created_at from awaiting_fan_out as unaddressed
      where unaddressed.topic = awaiting.topic and subscribers is null order by created_at limit 1
    )) end order by turn) into untils
    from unnest(topics, untils) with ordinality as awaiting(topic, until, turn);
  end if;
  -- Where release 0.2 has made lanes of keys, each key is looked up by itself.
  select coalesce(array_agg(topic), '{}') into by_slot from unnest(topics) as awaiting(topic)
  where not exists (select from lanes as old where old.topic = awaiting.topic and old.ordering_key > '');
  marker_ids := array(
    -- Each topic in its own order; between topics there is none, so that nothing need be sorted or read in vain.
    select waiting.id
    from unnest(topics, untils) as ready(topic, until), lateral (
      select ctid as id from awaiting_fan_out
      where awaiting_fan_out.topic = ready.topic and created_at < ready.until
      order by created_at, seq limit max_events
    ) as waiting
    limit max_events
  );
  if not is_careful then
    select made.events, made.lanes, made.tails, made.firsts, made.changes into events, lanes, tails, firsts, changes
    from postbud_place_1(marker_ids, by_slot) as made;
  else
    foreach marker_id in array marker_ids loop
      begin
        select * into strict placed from postbud_place_1(array[marker_id], by_slot);
        events := events + placed.events;
        lanes := lanes || placed.lanes;
        tails := tails || placed.tails;
        firsts := firsts || placed.firsts;
        changes := changes || placed.changes;
      exception
        -- A statement that is cancelled, and a lock that somebody else holds, say nothing about the row.
        when serialization_failure or deadlock_detected or lock_not_available or query_canceled then
          raise;
        when others then
          with unfit as (
            delete from awaiting_fan_out where ctid = marker_id returning *
          )
          insert into set_aside (at, kind, topic, event_id, found)
          select clock_timestamp(), 'unfit_marker', unfit.topic, unfit.event_id,
            to_jsonb(unfit) || jsonb_build_object('error', sqlerrm, 'code', sqlstate)
          from unfit;
      end;
    end loop;
  end if;
  -- Only a clock that was ahead explains a time in the future. Nothing else leaves a topic without an event to fan out.
  is_ahead := false;
  if events < cardinality(topics) then
    is_ahead := exists (
      select from unnest(topics, untils) as ready(topic, until), lateral (
        select from awaiting_fan_out
        where awaiting_fan_out.topic = ready.topic and created_at > postbud_fan_out_2.at + interval '10 seconds' limit 1
      ) as ahead
      where until is not null
    );
  end if;
end
$$;--> statement-breakpoint
-- Records outcomes and lets the lanes go, or keeps them. A lane whose token is no longer the relay's is passed over with
-- all its outcomes; doing it twice changes nothing the second time. The lanes and their homes must be locked.
--
-- Counters that a row changed by hand contradicts stay where they can be: the doctor finds them, and no lane stops for them.
--
-- `delivered_*`: deliveries of a lane with the same times, to the millisecond, are one row with all their positions.
create or replace function postbud_settle_2(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  -- Keys that leave their shared lane: one whose handler takes long, with the lease that it is under; or one that a newer
  -- release is needed for.
  leaving jsonb,
  at timestamptz,
  out held bigint[],
  -- The lanes of the keys that left, by the lane that they left and the key.
  out left_for jsonb,
  out delivered int,
  out failed int,
  out waited int,
  out dead_lettered int,
  out changes postbud_change_1[]
) language plpgsql as $$
declare
  is_all_held boolean;
  is_bounded boolean;
  moved postbud_change_1[];
begin
  select coalesce(array_agg(lanes.id), '{}') into held
  from unnest(outcomes) as outcome join lanes on lanes.id = outcome.id and lanes.lease_token = outcome.token;
  is_all_held := cardinality(held) = cardinality(outcomes);
  delivered := 0;
  failed := 0;
  waited := 0;
  dead_lettered := 0;
  if cardinality(delivered_lanes) > 0 then
    with settled as (
      update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.in_ms,
        attempted_at = to_timestamp(attempt.at_ms / 1000),
        delivered_at = to_timestamp((attempt.at_ms + attempt.in_ms) / 1000), next_attempt_at = null
      from unnest(delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms, delivered_in_ms)
        as attempt(lane, home, positions, at_ms, in_ms)
      where deliveries.lane_id = attempt.home and deliveries.position = any (attempt.positions::bigint[])
        and coalesce(deliveries.state in ('pending', 'failing'), false)
        and (is_all_held or attempt.lane = any (held))
      returning attempt.lane, deliveries.event_id, (deliveries.attempts > 1)::int as was_failing,
        (deliveries.attempts = 1 and replays = 0)::int as first_attempt, deliveries.delivered_at
    ),
    change as (
      select event_id, count(*)::int as open, sum(was_failing)::int as failing from settled group by event_id
    ),
    changed_event as (
      -- In the order of their ids: two relays that settle deliveries of the same events would otherwise wait for each
      -- other in a ring. Locking them first would cost a record in the log for each.
      update events set open = greatest(events.open - change.open, 0),
        failing = least(greatest(events.failing - change.failing, 0), greatest(events.open - change.open, 0))
      from (select * from change order by event_id) as change
      where events.id = change.event_id
      returning events.topic, events.state as becomes, postbud_event_state(
        events.open + change.open, events.failing + change.failing, events.dead_lettered) as was
    ),
    lane_change as (
      select lane, count(*)::int as delivered, sum(was_failing)::int as failing,
        sum(first_attempt)::int as first_attempt, max(delivered_at) as last_delivered_at
      from settled group by lane
    )
    select (select sum(lane_change.delivered) from lane_change),
      array(
        select row(topic, subscriber, lane_change.failing - lane_change.delivered, -lane_change.failing, 0,
          lane_change.delivered, first_attempt, 0, last_delivered_at, null)::postbud_change_1
        from lane_change join lanes on lanes.id = lane
      ),
      array(select postbud_event_moved(topic, was, becomes) from changed_event where was <> becomes)
    into delivered, changes, moved;
    delivered := coalesce(delivered, 0);
    changes := changes || moved;
  end if;
  if unfinished is not null then
    declare
      attempts_of postbud_change_1[];
      counts record;
    begin
      with attempt as materialized (
        select * from jsonb_to_recordset(unfinished) as attempt(lane bigint, home bigint, position bigint,
          at timestamptz, duration_ms int, burnt int, next_attempt_at timestamptz, error_group jsonb, entry jsonb,
          halts boolean)
      ),
      settled as (
        update deliveries set attempts = deliveries.attempts + attempt.burnt, attempted_at = attempt.at,
          duration_ms = attempt.duration_ms, next_attempt_at = attempt.next_attempt_at,
          state = case when attempt.next_attempt_at is null then 'dead_lettered'
            when attempt.burnt = 1 then 'failing' else deliveries.state end,
          dead_lettered_at = case when attempt.next_attempt_at is null
            then attempt.at + attempt.duration_ms * interval '1 millisecond' end,
          error_group = attempt.error_group ->> 'key',
          attempt_log = coalesce(deliveries.attempt_log, '[]')
            || (attempt.entry || jsonb_build_object('attempt', deliveries.attempts + 1))
        from attempt
        where deliveries.lane_id = attempt.home and deliveries.position = attempt.position
          and coalesce(deliveries.state in ('pending', 'failing'), false)
          and (is_all_held or attempt.lane = any (held))
        returning attempt.lane, deliveries.position, deliveries.event_id, deliveries.lane_key,
          deliveries.next_attempt_at, attempt.burnt, attempt.error_group,
          attempt.home, attempt.halts, attempt.at,
          (attempt.next_attempt_at is null)::int as dead,
          (deliveries.state = 'failing')::int - (deliveries.attempts > attempt.burnt)::int as failing,
          case when attempt.burnt = 1 then attempt.at + attempt.duration_ms * interval '1 millisecond' end as failed_at
      ),
      change as (
        select event_id, sum(dead)::int as dead, sum(settled.failing)::int as failing from settled group by event_id
      ),
      changed_event as (
        update events set open = greatest(events.open - change.dead, 0),
          failing = least(greatest(events.failing + change.failing, 0), greatest(events.open - change.dead, 0)),
          dead_lettered = events.dead_lettered + change.dead
        from (select * from change order by event_id) as change
        where events.id = change.event_id
        returning events.topic, events.state as becomes, postbud_event_state(
          events.open + change.dead, events.failing - change.failing, events.dead_lettered - change.dead) as was
      ),
      -- A key that waits leaves its shared lane to the others. Its deliveries stay where they are.
      in_trouble as (
        insert into lanes (topic, subscriber, slot, held_key, home_id, head, tail, needed_version, due_at)
        select home.topic, home.subscriber, home.slot, settled.lane_key, home.id,
          -- Moved back since the claim: a replay may have put back what comes first of this key.
          case when home.head = outcome.head_was then settled.position - (not coalesce(halts, false))::int
            else least(settled.position - 1, home.head) end,
          settled.position, 32767, case when home.head <> outcome.head_was then postbud_settle_2.at
            when halts then 'infinity' else settled.next_attempt_at end
        from settled join lanes as home on home.id = settled.lane
          join unnest(outcomes) as outcome on outcome.id = home.id
        where home.slot is not null and home.home_id is null and (settled.next_attempt_at is not null or halts)
        order by settled.position
        on conflict (topic, subscriber, slot, held_key) where slot is not null
          do update set head = least(lanes.head, excluded.head), due_at = excluded.due_at
      ),
      halted as (
        insert into halts (lane_id, position, lane_key, topic, subscriber, halted_at)
        select home, settled.position, settled.lane_key, topic, subscriber, settled.at
        from settled join lanes on lanes.id = settled.lane where halts
        on conflict (lane_id, position) do update set halted_at = excluded.halted_at
      ),
      dead as (
        insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
        select error_group ->> 'key', topic, subscriber, min(error_group ->> 'kind'), min(error_group ->> 'message'),
          count(*)
        from settled join lanes on lanes.id = settled.lane where settled.dead = 1
        -- After the events, in the order of their keys.
          and (select count(*) from changed_event) >= 0
        group by 1, 2, 3 order by 1
        on conflict (key) do update set dead_lettered = known.dead_lettered + excluded.dead_lettered
      )
      select array(
          select row(topic, subscriber, (-settled.dead - settled.failing), settled.failing, settled.dead, 0, 0,
            settled.burnt, null, failed_at)::postbud_change_1
          from settled join lanes on lanes.id = settled.lane
        ) as changes,
        array(select postbud_event_moved(topic, was, becomes) from changed_event where was <> becomes) as moved,
        (select count(*) from settled where dead = 0 and burnt = 1) as failed,
        (select count(*) from settled where burnt = 0) as waited,
        (select count(*) from settled where dead = 1) as dead_lettered
      into counts;
      changes := changes || counts.changes || counts.moved;
      failed := counts.failed;
      waited := counts.waited;
      dead_lettered := counts.dead_lettered;
    end;
  end if;
  if leaving is not null then
    with gone as (
      insert into lanes (topic, subscriber, slot, held_key, home_id, head, tail, needed_version, waits_for_version,
        held_version, lease_token, due_at)
      select topic, subscriber, slot, key, home.id,
        case when home.head = outcome.head_was then key_leaving.position - 1
          else least(key_leaving.position - 1, home.head) end,
        key_leaving.position, 32767,
        key_leaving.waits_for_version, home.held_version,
        case when key_leaving.keep_until is not null then home.lease_token end,
        coalesce(to_timestamp(key_leaving.keep_until / 1000), at)
      from jsonb_to_recordset(leaving) as key_leaving(lane bigint, key text, position bigint, keep_until float8,
          waits_for_version smallint)
        join lanes as home on home.id = key_leaving.lane
        join unnest(outcomes) as outcome on outcome.id = home.id
      where home.id = any (held)
      on conflict (topic, subscriber, slot, held_key) where slot is not null
        do update set head = least(lanes.head, excluded.head)
      returning id, home_id, held_key
    )
    select json_agg(gone) into left_for from gone;
  end if;
  if exists (select from unnest(outcomes) where waits) then
    perform postbud_record_presence_1(outcomes, held, delivered_lanes, unfinished, at);
  end if;
  is_bounded := exists (select from halts) or exists (select from backfills where ended_at is null);
  update lanes set
    -- Moved back since the claim: a replay put deliveries back, which come first.
    head = case when lanes.head = outcome.head_was then outcome.head_is else lanes.head end,
    tail = greatest(lanes.tail, outcome.head_is),
    careful_to = greatest(lanes.careful_to, outcome.careful_to),
    waits_for_version = case when lanes.head = outcome.head_was then outcome.waits_for_version end,
    needed_version = case when lanes.slot is not null then 32767 end,
    lease_token = case when outcome.keep_until is not null then lanes.lease_token end,
    due_at = case
      when outcome.keep_until is not null then greatest(lanes.due_at, to_timestamp(outcome.keep_until / 1000))
      when lanes.head <> outcome.head_was then at
      when is_bounded and outcome.head_is >= postbud_front_1(
        lanes.topic, lanes.subscriber, coalesce(lanes.home_id, lanes.id), nullif(lanes.held_key, '')) then 'infinity'
      when outcome.retry_at is not null then to_timestamp(outcome.retry_at / 1000)
      when lanes.home_id is null then case when lanes.tail > outcome.head_is then at end
      when exists (
        select from deliveries
        -- The row is compared as the index of keys has it.
        where (lane_id, lane_key, position) > (lanes.home_id, lanes.held_key, outcome.head_is)
          and lane_id = lanes.home_id and lane_key = lanes.held_key
          and coalesce(state in ('pending', 'failing'), false)
      ) then at
    end
  from unnest(outcomes) as outcome
  where lanes.id = outcome.id and lanes.lease_token = outcome.token;
  -- The key is through: what comes for it next goes to its shared lane again.
  if exists (select from unnest(outcomes) where id <> home) then
    delete from lanes where id = any (held) and home_id is not null and due_at is null;
  end if;
end
$$;
--> statement-breakpoint
-- Settles in the transaction of a handler. @returns how many deliveries it recorded as delivered.
create or replace function postbud_settle_alone_2(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  leaving jsonb
) returns int language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  settled record;
begin
  perform postbud_require_read_committed_1();
  perform from lanes where id = any (array(select id from unnest(outcomes) union select home from unnest(outcomes)))
  order by id for update;
  select * into settled from postbud_settle_2(outcomes, delivered_lanes, delivered_homes, delivered_positions,
    delivered_at_ms, delivered_in_ms, unfinished, leaving, clock_timestamp());
  if cardinality(settled.changes) > 0 then
    perform postbud_count_1(settled.changes, clock_timestamp());
  end if;
  return settled.delivered;
end
$$;--> statement-breakpoint
-- One turn of a relay in one round trip: fans out, settles what is done, and claims what is due. Each statement in here
-- sees what was committed before it began, and begins only if there is something for it to do.
--
-- The order of locks is that of lib/deliveries/locks.ts: the fan-out's, then all lanes that are changed, in the order of
-- their ids, then events, then counters. A claim passes over lanes that others have locked.
--
-- With `max_lanes` 0 it only settles: the relay's time is up. Without `is_looking` it asks only for the lanes that its own
-- fan-out has lengthened, if those are few; finding none of them it looks everywhere. `max_events` and `is_careful` are for
-- the fan-out.
create or replace function postbud_turn_3(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb, leaving jsonb,
  fence jsonb,
  token uuid, topics text[], subscribers text[], versions int[], leases_ms float8[], waits boolean[],
  max_lanes int, max_deliveries int, is_looking boolean,
  max_events int, is_careful boolean,
  clock timestamptz
) returns json language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  now_at timestamptz := coalesce(clock, clock_timestamp());
  passed_at timestamptz;
  is_clock_back boolean := false;
  has_waiting boolean;
  fence_at timestamptz;
  fanned_out int := 0;
  has_unaddressed boolean;
  lengthened bigint[];
  tails bigint[];
  firsts timestamptz[];
  changes postbud_change_1[];
  settled record;
  settlement json;
  claimed json;
begin
  perform postbud_require_read_committed_1();
  if max_lanes > 0 then
    select at into passed_at from last_pass limit 1;
    -- What operators go by to tell that a relay runs. Once a second is enough, and nobody waits to write it.
    if passed_at is null or passed_at < now_at - interval '1 second' then
      update last_pass set at = now_at where ctid = any (array(select ctid from last_pass for update skip locked));
    end if;
    -- A relay was here at a time that the clock has not come to. A clock that tests set goes where they want.
    is_clock_back := clock is null and passed_at > now_at + interval '10 seconds';
  end if;
  has_waiting := max_lanes > 0 and exists (select from awaiting_fan_out);
  if has_waiting then
    select found.fence, found.at, found.events, found.has_unaddressed, found.lanes, found.tails, found.firsts, found.changes,
      is_clock_back or coalesce(found.is_ahead, false)
    into fence, fence_at, fanned_out, has_unaddressed, lengthened, tails, firsts, changes, is_clock_back
    from postbud_fan_out_2(fence, outcomes is null, max_events, is_careful) as found;
  end if;
  if outcomes is not null then
    perform from lanes
    where id = any (
      array(select id from unnest(outcomes) union select home from unnest(outcomes) union select unnest(lengthened))
    )
    order by id for update;
  end if;
  if lengthened is not null then
    with longer as (
      select id, max(tail) as tail, min(first_at) as first_at
      from unnest(lengthened, tails, firsts) as longer(id, tail, first_at) group by id
    )
    update lanes set tail = greatest(lanes.tail, locked.tail),
      due_at = coalesce(lanes.due_at, least(locked.first_at, now_at))
    from (
      select lanes.id, longer.tail, longer.first_at from lanes join longer using (id) order by lanes.id for update of lanes
    ) as locked
    where lanes.id = locked.id;
  end if;
  if outcomes is not null then
    select * into settled from postbud_settle_2(outcomes, delivered_lanes, delivered_homes, delivered_positions,
      delivered_at_ms, delivered_in_ms, unfinished, leaving, now_at);
    changes := changes || settled.changes;
    settlement := json_build_object('held', settled.held, 'leftFor', settled.left_for, 'delivered', settled.delivered, 'failed', settled.failed,
      'waited', settled.waited, 'deadLettered', settled.dead_lettered);
  end if;
  if cardinality(changes) > 0 then
    perform postbud_count_1(changes, now_at);
  end if;
  now_at := coalesce(clock, clock_timestamp());
  if max_lanes > 0 then
    if not is_looking and cardinality(lengthened) <= 16 then
      claimed := postbud_claim_2(
        token, topics, subscribers, versions, leases_ms, waits, lengthened, max_lanes, max_deliveries, now_at);
    end if;
    if claimed is null then
      claimed := postbud_claim_2(
        token, topics, subscribers, versions, leases_ms, waits, null, max_lanes, max_deliveries, now_at);
    end if;
  end if;
  -- What a crash takes back nobody was handed: then the commit need not wait for the disk.
  if claimed is null and outcomes is null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  -- The clock once more: whoever had a lane before has settled it before that, and not before `now`.
  return json_build_object('now', extract(epoch from now_at) * 1000,
    'clock', extract(epoch from coalesce(clock, clock_timestamp())) * 1000, 'fannedOut', fanned_out,
    'isAwaited', has_waiting and exists (select from awaiting_fan_out), 'hasUnaddressed', coalesce(has_unaddressed, false),
    'fence', fence, 'fenceAt', extract(epoch from fence_at) * 1000, 'settled', settlement,
    'claimed', claimed, 'hasRecovered', exists (select from outages where recovered_at is not null),
    'isClockBack', is_clock_back);
end
$$;--> statement-breakpoint
-- Takes back the times that only a clock which was ahead explains: due times of lanes and their deliveries, of probes and
-- of operations under way, and the times of events that wait for fan-out. What waits by the right clock is left alone.
--
-- Returns what it took back, and keeps it in set_aside; null when no clock was ahead.
create or replace function postbud_take_back_times_1() returns jsonb language plpgsql as $$
declare
  now_at timestamptz;
  passed_at timestamptz;
  taken jsonb;
  events_taken int;
  lanes_taken int;
begin
  perform postbud_require_read_committed_1();
  perform pg_advisory_xact_lock(36952, 0);
  now_at := clock_timestamp();
  select at into passed_at from last_pass limit 1;
  -- Nobody holds a lane for longer than the longest lease, and a retry is due so long after its attempt ended.
  perform from lanes where due_at > now_at + interval '10 seconds' and due_at < 'infinity' order by id for update;
  with ahead as materialized (
    select id, home_id, slot, held_key, head, lease_token, due_at from lanes
    where due_at > now_at + interval '10 seconds' and due_at < 'infinity'
  ),
  head as materialized (
    select ahead.id, coalesce(home_id, ahead.id) as home, due_at, lease_token, next.*,
      greatest(attempted_at - now_at, interval '0') as ahead_by
    from ahead left join lateral (
      select next.position, next.next_attempt_at, deliveries.attempted_at
      from postbud_next_2(ahead.id, home_id, slot, held_key, ahead.head, 1) as next
        join deliveries on deliveries.lane_id = coalesce(home_id, ahead.id) and deliveries.position = next.position
    ) as next on true
  ),
  right_time as (
    select id, home, position, ahead_by, case
      when lease_token is not null then least(due_at, now_at + interval '80 seconds')
      else least(due_at, coalesce(next_attempt_at - ahead_by, now_at))
    end as due_at
    from head
  ),
  delivery as (
    update deliveries set next_attempt_at = deliveries.next_attempt_at - ahead_by
    from right_time
    where lane_id = home and deliveries.position = right_time.position and ahead_by > interval '1 second'
      and deliveries.next_attempt_at is not null
  ),
  lane as (
    update lanes set due_at = right_time.due_at from right_time
    where lanes.id = right_time.id and lanes.due_at > right_time.due_at
    returning 1
  )
  select count(*) into lanes_taken from lane;
  -- An event that waits for fan-out is recorded now: those that were recorded since come before it, as they were.
  with ahead as materialized (
    select ctid as id, event_id from awaiting_fan_out where created_at > now_at + interval '10 seconds'
  ),
  event as (
    update events set created_at = now_at from ahead where events.id = ahead.event_id
  ),
  marker as (
    update awaiting_fan_out set created_at = now_at where ctid = any (array(select id from ahead)) returning 1
  )
  select count(*) into events_taken from marker;
  update outages set next_probe_at = least(next_probe_at, now_at + interval '1 minute')
  where greatest(opened_at, probed_at) > now_at;
  -- Paces and patience: a step that comes early does no harm.
  update paced_replays set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update backfills set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update erasures set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update last_pass set at = now_at where at > now_at;
  if not (passed_at > now_at + interval '10 seconds') and events_taken = 0 and lanes_taken = 0 then
    return null;
  end if;
  taken := jsonb_build_object('aheadBySeconds', extract(epoch from passed_at - now_at)::int, 'events', events_taken,
    'lanes', lanes_taken);
  insert into set_aside (at, kind, topic, found) values (now_at, 'clock_was_ahead', '', taken);
  return taken;
end
$$;

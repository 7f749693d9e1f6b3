-- Fans out: writes one delivery for each subscriber that an event names, for the events whose place in the order is
-- certain, in (created_at, seq) order. The lanes are not touched: the caller lengthens them, since it locks all that it
-- changes together.
--
-- The quiet fence. `emit` takes a shared lock on its topic before it reads the clock and its marker draws a number. So an
-- event created before `at` belongs to a transaction that is visible to the statements after the one that reads the locks,
-- or that held its lock then. And a transaction has no event from before it began: what is older does not wait for it. One
-- fan-out at a time, so that positions are drawn in the order of their commits. While another one runs, this waits for it
-- if it may: whoever holds no other lock. Else it does nothing.
--
-- Where the clock steps back after `at`, transactions that lock later have events from before it too, and some of them are
-- committed. Their markers have later numbers than those that were drawn by then: nothing is fanned out that is as late as the
-- first of those. A role that may not read the number finds none of them.
--
-- `memory` is what its process learned from the call before, and goes into the next one:
--
-- - `from`: all markers up to this number are fanned out, or will never be, except where a pin says otherwise. What is dead
--   stands before it in the index, and is not read. It moves on a few times a second. Once a minute all is read (`wholeAt`).
-- - `pins`, by lock: which transactions must end before the events of its topics up to a moment (`at`) may be fanned out. It
--   waits for exactly those, not for silence, for a topic with a new emitter at every look is never quiet. Their events have
--   a `from` of their own, which for a second is read too. A prepared transaction survives a restart of the server, but
--   under another name: so one that was not there before may be any of those that were.
-- - `reserved`: up to which position deliveries may be numbered.
-- - `server`: in whose life this is true. A crash takes back numbers that were drawn; see postbud_turn_4.
--
-- Mostly nothing is pinned, few events wait, and nobody emits to their topics at this moment: whoever could lock such a topic
-- for himself knows that, and need not read the locks of all.
--
-- With `is_careful` each event is fanned out by itself, and one that cannot be is set aside: a row that should not exist
-- stops nothing but itself.
create or replace function postbud_fan_out_3(
  inout memory jsonb,
  may_wait boolean,
  max_events int,
  is_careful boolean,
  -- Backends whose transactions have emitted and are about to commit: this waits for them if it may, for some milliseconds.
  awaited int[],
  out at timestamptz,
  out events int,
  -- Whether events still wait for fan-out: for a producer's transaction, for another relay, or for the next turn.
  out is_awaited boolean,
  -- Whether the awaited transactions had ended when this looked.
  out is_met boolean,
  -- The lanes to be lengthened, up to where, and since when they are due.
  out lanes bigint[],
  out tails bigint[],
  out firsts timestamptz[],
  out changes postbud_change_1[],
  -- Where it is a single event: its place and its id.
  out "position" bigint,
  out event_id uuid,
  -- Whether events were recorded at a time that the clock has not come to.
  out is_ahead boolean,
  -- Whether the commit has to wait for the disk.
  out is_durable boolean
) language plpgsql as $$
declare
  scan_from bigint := memory -> 'from';
  -- What somebody wrote by hand, without the lock, may have been passed over.
  is_whole constant boolean := extract(epoch from clock_timestamp()) - (memory ->> 'wholeAt')::float8 > 60;
  pins jsonb := nullif(memory -> 'pins', 'null');
  topic_name text;
  last_topic text;
  topics text[];
  leasts timestamptz[];
  untils timestamptz[];
  uptos bigint[];
  found_events bigint;
  is_quiet boolean;
  number_now bigint;
  holders jsonb;
  began jsonb;
  passed jsonb;
  pinned_from bigint;
  marker_ids tid[];
  marker_id tid;
  placed record;
  rest record;
begin
  events := 0;
  is_awaited := false;
  is_durable := false;
  if is_whole then
    scan_from := 0;
  end if;
  is_met := awaited is null or postbud_await_emitters_1(awaited, may_wait);
  select min(topic), max(topic), count(*) into topic_name, last_topic, found_events
  from (select topic from awaiting_fan_out where number > scan_from order by number limit 1000) as first;
  if found_events > 0 then
    topics := array[topic_name];
    if last_topic <> topic_name then
      topics := array(
        select distinct topic
        from (select topic from awaiting_fan_out where number > scan_from order by number limit 1000) as first
      );
    end if;
  end if;
  if topics is null and pins is null then
    memory := case when is_whole then memory || jsonb_build_object('wholeAt', extract(epoch from clock_timestamp())) end;
    return;
  end if;
  if not pg_try_advisory_xact_lock(36952, 0) then
    if not may_wait then
      is_awaited := true;
      memory := null;
      return;
    end if;
    perform pg_advisory_xact_lock(36952, 0);
  end if;
  number_now := coalesce(pg_sequence_last_value('awaiting_fan_out_number_seq'), 0);
  at := clock_timestamp();
  is_quiet := pins is null and found_events < 1000 and not is_whole
    and extract(epoch from at) - (memory ->> 'movedAt')::float8 < 0.2;
  if is_quiet then
    foreach topic_name in array topics loop
      is_quiet := is_quiet and pg_try_advisory_lock(36951, hashtext(topic_name))
        and pg_advisory_unlock(36951, hashtext(topic_name));
    end loop;
  end if;
  if is_quiet then
    -- All that waits of these topics, and in a newer snapshot than the locks that were tried. By number: in the order of topics
    -- the dead stand before it, and without the offset the planner may choose that.
    marker_ids := array(
      select id from (
        select ctid as id, topic, created_at, seq from awaiting_fan_out where number > scan_from order by number offset 0
      ) as waiting
      where waiting.topic = any (topics) and created_at < least(at, (
        select min(late.created_at) from awaiting_fan_out as late where late.number > nullif(number_now, 0)
      )) order by created_at, seq limit max_events
    );
  else
    select jsonb_object_agg(lock, transactions), jsonb_object_agg(lock, began_at) into holders, began
    from (
      -- When the first of them began. Where that of one is not known, as of another role's or a prepared one, none is.
      select lock, jsonb_agg(transaction) as transactions,
        case when count(*) = count(began_at) then least(at, min(began_at)) end as began_at
      from (
        select objid::text as lock, virtualtransaction as transaction,
          case when pid is not null then (select xact_start from pg_stat_get_activity(pid)) end as began_at
        from pg_locks
        where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = 36951 and objsubid = 2
          and database = (select oid from pg_database where datname = current_database())
      ) as held
      group by lock
    ) as held;
    -- Per lock, when its topics may be fanned out up to a moment that is past; and what to wait for next.
    select min((memory_of ->> 'from')::bigint) filter (
        where memory_of is not null and (remaining is null or (memory_of ->> 'at')::timestamptz > at - interval '1 second')
      ),
      -- What is pinned for longer is not read, so nothing newer of its topics may be fanned out either.
      began - coalesce(array_agg(lock) filter (
        where remaining is not null and (memory_of ->> 'at')::timestamptz <= at - interval '1 second'
      ), '{}'),
      jsonb_object_agg(lock, memory_of) filter (where memory_of is not null and remaining is null),
      jsonb_object_agg(lock, case
        when remaining is not null then memory_of || jsonb_build_object('transactions', remaining)
        else jsonb_build_object('at', at, 'from', coalesce(memory_of -> 'from', to_jsonb(scan_from)),
          'upto', number_now, 'transactions', holder)
      end) filter (where holder is not null)
    into pinned_from, began, passed, pins
    from (
      select lock, holder, memory_of, (
        -- After a restart a prepared transaction has no backend. One like that which was not there before may be one of
        -- those that are gone.
        select jsonb_agg(transaction) from jsonb_array_elements_text(holder) as held(transaction)
        where memory_of -> 'transactions' ? transaction or transaction like '-1/%' and exists (
          select from jsonb_array_elements_text(memory_of -> 'transactions') as gone(transaction)
          where gone.transaction not like '-1/%' and not holder ? gone.transaction
        )
      ) as remaining
      from (
        select lock, held.value as holder, pinned.value as memory_of
        from jsonb_each(holders) as held(lock, value) full join jsonb_each(pins) as pinned(lock, value) using (lock)
      ) as locks
    ) as known;
    scan_from := least(scan_from, pinned_from);
    -- In a newer snapshot than the locks: an event that was committed meanwhile may be older than all that were seen.
    select array_agg(topic), array_agg(least_at), coalesce(sum(waiting), 0) into topics, leasts, found_events
    from (
      select topic, min(created_at) as least_at, count(*) as waiting
      from (
        select topic, created_at from awaiting_fan_out where number > scan_from order by number limit 1000
      ) as first
      -- Another order each time, so that under a flood no topic is always last.
      group by topic order by random()
    ) as waiting;
    select array_agg(case when coalesce(holders ? lock, false)
      then greatest((passed -> lock ->> 'at')::timestamptz, (began ->> lock)::timestamptz, '-infinity') else at end
      order by turn),
      array_agg(nullif(case when holders ? lock
          and (passed -> lock ->> 'at')::timestamptz > coalesce((began ->> lock)::timestamptz, '-infinity')
        then (passed -> lock ->> 'upto')::bigint else number_now end, 0) order by turn)
    into untils, uptos
    from unnest(topics) with ordinality as waiting(topic, turn),
      lateral (select (hashtext(topic)::bigint & 4294967295)::text as lock) as named;
    if found_events >= 1000 then
      -- Behind these there may be older ones of their topics.
      leasts := array_fill('-infinity'::timestamptz, array[cardinality(topics)]);
    end if;
    marker_ids := array(
      -- Each topic in its own order; between topics there is none, so that nothing need be sorted or read without effect.
      select waiting.id
      from unnest(topics, leasts, untils, uptos) as ready(topic, least_at, until, upto), lateral (
        select ctid as id from awaiting_fan_out
        where awaiting_fan_out.topic = ready.topic and created_at >= ready.least_at and created_at < least(ready.until, (
          select min(late.created_at) from awaiting_fan_out as late
          where late.number > ready.upto and late.topic = ready.topic
        ))
        order by created_at, seq limit max_events
      ) as waiting
      limit max_events
    );
  end if;
  if coalesce(pg_sequence_last_value('delivery_positions'), 0) + cardinality(marker_ids) > (memory -> 'reserved')::bigint
  then
    memory := memory || jsonb_build_object('reserved', postbud_reserve_positions_1(memory ->> 'server', cardinality(marker_ids)));
    is_durable := true;
  end if;
  if not is_careful then
    if cardinality(marker_ids) > 0 then
      placed := postbud_place_2(marker_ids);
      events := placed.events;
      lanes := placed.lanes;
      tails := placed.tails;
      firsts := placed.firsts;
      changes := placed.changes;
      position := placed.position;
      event_id := placed.event_id;
    end if;
  else
    foreach marker_id in array marker_ids loop
      begin
        select * into strict placed from postbud_place_2(array[marker_id]);
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
  if is_quiet then
    -- Only the locks of these topics are known.
    memory := case when is_durable then memory end;
    is_awaited := events < found_events;
    return;
  end if;
  -- How far all is fanned out, but for what is pinned; and the same for each pin whose moment has come. Not beyond the numbers
  -- that were drawn before the locks were read: of the emitters that came since, some are open.
  with left_over as materialized (
    select number, created_at, topic, (hashtext(topic)::bigint & 4294967295)::text as lock
    from awaiting_fan_out where number > scan_from order by number limit 1000
  )
  select count(*) as events, max(number) as upto, min(number) filter (where pins is null or not pins ? lock) as first,
    (select jsonb_object_agg(lock, first) from (select lock, min(number) as first from left_over group by lock) as of_lock)
      as firsts,
    -- Only a clock that was ahead explains a time in the future. Nothing else leaves a topic without an event to fan out.
    coalesce(bool_or(created_at > at + interval '10 seconds'), false) as is_ahead
  into rest from left_over;
  is_ahead := rest.is_ahead;
  memory := memory || jsonb_build_object('movedAt', extract(epoch from at), 'from', greatest(scan_from,
      least(number_now, coalesce(rest.first - 1, case when rest.events = 1000 then rest.upto else number_now end))),
    'wholeAt', case when is_whole then to_jsonb(extract(epoch from at)) else memory -> 'wholeAt' end, 'pins', (
      select jsonb_object_agg(lock, pin || case
        when passed ? lock and rest.events < 1000 then jsonb_build_object('from',
          least((rest.firsts ->> lock)::bigint - 1, (passed -> lock ->> 'upto')::bigint))
        else '{}'
      end || case when rest.firsts ? lock then '{"waits": true}' else '{}' end::jsonb)
      from jsonb_each(pins) as pinned(lock, pin)
    ));
  is_awaited := rest.events > 0 or coalesce(memory -> 'pins' @? '$.*.waits', false);
end
$$;

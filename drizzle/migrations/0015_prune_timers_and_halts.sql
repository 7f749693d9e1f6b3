ALTER TABLE "pruned_events" ADD COLUMN "reached" uuid;
--> statement-breakpoint
-- Cancels a timer, in the caller's transaction: `cancelTimer` for producers in other languages. It runs with the owner's
-- rights, as `postbud_emit` does.
--
-- Returns whether there was one. Once this has committed after `true`, its event never happens. `false` says that it was
-- released or cancelled before, or never set. Raises PB001 and PB004 as `postbud_emit` does.
create or replace function postbud_cancel_timer(topic text, timer_key text)
returns boolean language plpgsql security definer
set search_path = pg_catalog, public, pg_temp as $$
#variable_conflict use_column
begin
  perform postbud_require_emitter_1(postbud_cancel_timer.topic);
  return postbud_delete_timer_1(postbud_cancel_timer.topic, postbud_cancel_timer.timer_key) is not null;
end
$$;
--> statement-breakpoint
-- Cancels a timer once for a dedupe key: a repeated request cancels none that was set since.
--
-- Returns the cancelled timer's id, null where there was none, and whether this request is the first.
create or replace function postbud_cancel_timer_once_1(topic text, timer_key text, dedupe_key text)
returns json language plpgsql as $$
#variable_conflict use_column
declare
  cancelled uuid;
begin
  insert into timer_dedupe_keys (topic, dedupe_key, at)
  values (postbud_cancel_timer_once_1.topic, postbud_cancel_timer_once_1.dedupe_key, clock_timestamp())
  on conflict do nothing;
  if not found then
    return (select json_build_object('id', timer_id, 'isNew', false) from timer_dedupe_keys
      where timer_dedupe_keys.topic = postbud_cancel_timer_once_1.topic
        and timer_dedupe_keys.dedupe_key = postbud_cancel_timer_once_1.dedupe_key);
  end if;
  cancelled := postbud_delete_timer_1(postbud_cancel_timer_once_1.topic, postbud_cancel_timer_once_1.timer_key);
  update timer_dedupe_keys set timer_id = cancelled where timer_dedupe_keys.topic = postbud_cancel_timer_once_1.topic
    and timer_dedupe_keys.dedupe_key = postbud_cancel_timer_once_1.dedupe_key;
  return json_build_object('id', cancelled, 'isNew', true);
end
$$;
--> statement-breakpoint
-- Deletes a timer that its producer cancels, and returns its id; null where there is none. One that was set aside is that no
-- longer.
create or replace function postbud_delete_timer_1(topic text, timer_key text) returns uuid language plpgsql as $$
#variable_conflict use_column
declare
  deleted record;
begin
  loop
    delete from timers
    where timers.topic = postbud_delete_timer_1.topic and timers.timer_key = postbud_delete_timer_1.timer_key
    returning id, refused_at into deleted;
    exit when found or not exists (
      -- The deletion may have waited for a transaction that deleted the timer and set it again.
      select from timers
      where timers.topic = postbud_delete_timer_1.topic and timers.timer_key = postbud_delete_timer_1.timer_key
    );
  end loop;
  if deleted.refused_at is not null then
    perform postbud_settle_unfit_timer_1(
      postbud_delete_timer_1.topic, postbud_delete_timer_1.timer_key, 'cancelled by its producer');
  end if;
  return deleted.id;
end
$$;
--> statement-breakpoint
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
--> statement-breakpoint
-- Releases timers that are due, in the order of their times: deletes each and records its event, for the subscribers that the
-- catalog lists now. What commits first stands. A timer that an open transaction moves or cancels is not waited for, but no
-- later one of its topic is released before it is known what becomes of it.
--
-- One releases at a time, so that events are recorded in the order of times. A timer whose payload the catalog does not accept
-- any more is set aside, and stays until an operator repairs or cancels it.
create or replace function postbud_release_timers_1(
  clock timestamptz,
  -- Their events' times are a microsecond apart: fewer than 1000 take no millisecond.
  max_timers int,
  out released int,
  -- How long until the next one is due; null where there is none.
  out next_in_ms float8
) language plpgsql
-- An event with the same dedupe key may be in an open transaction.
set lock_timeout = '200ms' set enable_seqscan = off as $$
declare
  now_at constant timestamptz := coalesce(clock, clock_timestamp());
  due uuid[];
  taken uuid[];
  held text[] := '{}';
  kind record;
  known catalog_topics;
  checked record;
  portion int;
  place int := 1;
  moved record;
  last_at timestamptz := '-infinity';
begin
  released := 0;
  loop
    due := array(
      select id from timers where refused_at is null and due_at <= now_at and topic <> all (held)
      order by due_at, seq limit max_timers
    );
    exit when due = '{}' or held = '{}' and not pg_try_advisory_xact_lock(36964, 0);
    perform postbud_require_read_committed_1();
    taken := array(
      select id from timers where id = any (due) and refused_at is null and due_at <= now_at
      order by due_at, seq for update skip locked
    );
    exit when cardinality(taken) = cardinality(due);
    -- The others are gone, or somebody holds them. Of a topic only what is before its first such timer goes on.
    select coalesce(array_agg(id order by due_at, seq) filter (where is_free), '{}'),
      held || coalesce(array_agg(distinct topic) filter (where not is_free), '{}')
    into taken, held
    from (
      select id, topic, due_at, seq,
        bool_and(id = any (taken)) over (partition by topic order by due_at, seq) as is_free
      from timers where id = any (due) and refused_at is null and due_at <= now_at
    ) as timer;
    exit when taken <> '{}';
  end loop;

  for kind in
    select topic, version, array_agg(id order by seq) as ids, array_agg(payload order by seq) as payloads
    from timers
    where id = any (taken) and (
      -- The schema would refuse what an erasure has written over it.
      erased_at is null or not exists (select from catalog_topics where catalog_topics.topic = timers.topic)
    )
    group by 1, 2
  loop
    select * into known from catalog_topics where catalog_topics.topic = kind.topic;
    checked := null;
    if not found then
      select array_agg(n) as places, array_fill(''::text, array[cardinality(kind.ids)]) as paths,
        array_fill('the catalog has no such topic'::text, array[cardinality(kind.ids)]) as problems
      into checked from generate_subscripts(kind.ids, 1) as n;
    elsif known.schemas ? kind.version::text then
      checked := postbud_parse_2(known.schemas -> kind.version::text, kind.payloads);
    end if;
    -- Of a newer version it waits as an event, for a release that can read it.
    continue when coalesce(checked.places, '{}') = '{}';
    with unfit as (
      select kind.ids[n] as unfit_id, string_agg(concat_ws(': ', nullif(path, ''), problem), '; ') as error
      from unnest(checked.places, checked.paths, checked.problems) as problems(n, path, problem) group by 1
    ),
    refused as (
      update timers set refused_at = clock_timestamp() from unfit where id = unfit_id
      returning id, topic, due_at, timer_key, error
    )
    insert into set_aside (at, kind, topic, event_id, found)
    select clock_timestamp(), 'unfit_timer', topic, id, jsonb_build_object('error', error, 'dueAt', due_at, 'timerKey', timer_key)
    from refused order by due_at;
    taken := array(select id from unnest(taken) as id
      where id <> all (array(select kind.ids[n] from unnest(checked.places) as n)));
  end loop;

  -- The first half of the quiet fence (lib/bus/outbox/record.ts): the emitter locks first, then the timestamp.
  perform pg_advisory_xact_lock_shared(36951, lock)
  from (select distinct hashtext(topic) as lock from timers where id = any (taken) order by 1) as topics;
  portion := greatest(1, cardinality(taken));
  while place <= cardinality(taken) loop
    begin
      last_at := greatest(clock_timestamp(), now(), last_at + interval '1 microsecond');
      with timer as (
        delete from timers where id = any (taken[place:place + portion - 1]) returning *
      ),
      event as (
        insert into events (id, topic, payload, version, producer, subscribers, open, ordering_key, dedupe_key,
          correlation_id, causation_id, traceparent, due_at, erased_at, created_at)
        select id, timer.topic, payload, timer.version, timer.producer, coalesce(subscribers, '{}'),
          coalesce(cardinality(subscribers), 0), ordering_key, dedupe_key, correlation_id, causation_id, traceparent,
          due_at, erased_at, last_at + interval '1 microsecond' * (row_number() over (order by due_at, timer.seq) - 1)
        from timer left join catalog_topics on catalog_topics.topic = timer.topic
        order by due_at, timer.seq
        on conflict (topic, dedupe_key) where dedupe_key is not null do nothing
        returning id, topic, created_at, seq, ordering_key, open, subscribers, octet_length(payload::text) as payload_bytes
      ),
      marker as (
        insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, payload_bytes, subscribers)
        select topic, created_at, seq, id, ordering_key, open, payload_bytes, subscribers from event order by created_at
      )
      select count(*) as events, max(created_at) as until into moved from event;
      released := released + moved.events;
      last_at := greatest(last_at, moved.until);
      place := place + portion;
    exception when lock_not_available then
      -- One by one, then without the topics that have to wait.
      if portion = 1 then
        held := held || (select topic from timers where id = taken[place]);
        taken := array(
          select id from timers where id = any (taken[place + 1:]) and topic <> all (held) order by due_at, seq
        );
        place := 1;
      end if;
      portion := 1;
    end;
  end loop;
  select extract(epoch from due_at - coalesce(clock, clock_timestamp())) * 1000 into next_in_ms
  from timers where refused_at is null order by due_at, seq limit 1;
end
$$;
--> statement-breakpoint
-- Records an event that happens later, or moves the topic's timer of the same key. What it is given has been checked.
--
-- Returns the id of the event that it becomes; with a dedupe key that was used before, what that one became. Raises PB002 for
-- a time that is more than a year ahead.
create or replace function postbud_set_timer_1(
  id uuid, topic text, timer_key text, due_at timestamptz, payload jsonb, version smallint, producer text,
  ordering_key text, dedupe_key text, correlation_id text, causation_id text, traceparent text
)
returns uuid language plpgsql as $$
#variable_conflict use_column
declare
  earlier uuid;
begin
  if postbud_set_timer_1.due_at > clock_timestamp() + interval '366 days' then
    perform postbud_refuse_payload_1(postbud_set_timer_1.topic, '{at}', '{expected an instant at most a year ahead}');
  end if;
  if postbud_set_timer_1.dedupe_key is not null then
    select events.id into earlier from events
    where events.topic = postbud_set_timer_1.topic and events.dedupe_key = postbud_set_timer_1.dedupe_key;
    if found then
      return earlier;
    end if;
    insert into timer_dedupe_keys (topic, dedupe_key, timer_id, at)
    values (postbud_set_timer_1.topic, postbud_set_timer_1.dedupe_key, postbud_set_timer_1.id, clock_timestamp())
    on conflict do nothing;
    if not found then
      return (select timer_id from timer_dedupe_keys where timer_dedupe_keys.topic = postbud_set_timer_1.topic
        and timer_dedupe_keys.dedupe_key = postbud_set_timer_1.dedupe_key);
    end if;
  end if;
  -- A release that has the row locked is waited for: then there is none to be moved, and this is another timer.
  insert into timers (id, topic, timer_key, due_at, payload, version, producer, ordering_key, dedupe_key, correlation_id,
    causation_id, traceparent, set_at)
  values (postbud_set_timer_1.id, postbud_set_timer_1.topic, postbud_set_timer_1.timer_key,
    greatest(postbud_set_timer_1.due_at, '1970-01-01 00:00:00Z'), postbud_set_timer_1.payload,
    postbud_set_timer_1.version, postbud_set_timer_1.producer, postbud_set_timer_1.ordering_key,
    postbud_set_timer_1.dedupe_key, postbud_set_timer_1.correlation_id, postbud_set_timer_1.causation_id,
    postbud_set_timer_1.traceparent, clock_timestamp())
  on conflict (timer_key, topic) where timer_key is not null do update set id = excluded.id, due_at = excluded.due_at,
    seq = default, payload = excluded.payload, version = excluded.version, producer = excluded.producer,
    ordering_key = excluded.ordering_key, dedupe_key = excluded.dedupe_key, correlation_id = excluded.correlation_id,
    causation_id = excluded.causation_id, traceparent = excluded.traceparent, set_at = excluded.set_at,
    erased_at = null, refused_at = null;
  if postbud_set_timer_1.timer_key is not null then
    perform postbud_settle_unfit_timer_1(
      postbud_set_timer_1.topic, postbud_set_timer_1.timer_key, 'moved by its producer');
  end if;
  return postbud_set_timer_1.id;
end
$$;
--> statement-breakpoint
-- Records that a timer is no longer set aside, because its producer has moved or cancelled it. A row that an operator is
-- repairing is left to that operator.
create or replace function postbud_settle_unfit_timer_1(topic text, timer_key text, reason text)
returns void language sql as $$
  update set_aside set repaired_at = clock_timestamp(), repaired_by = 'postbud',
    reason = postbud_settle_unfit_timer_1.reason
  where id in (
    select id from set_aside
    where set_aside.topic = postbud_settle_unfit_timer_1.topic and kind = 'unfit_timer' and repaired_at is null
      and found ->> 'timerKey' = timer_key
    for update skip locked
  )
$$;

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
        insert into events (id, topic, payload, version, producer, subscribers, ordering_key, dedupe_key,
          correlation_id, causation_id, traceparent, due_at, erased_at, created_at)
        select id, timer.topic, payload, timer.version, timer.producer, coalesce(subscribers, '{}'),
          ordering_key, dedupe_key, correlation_id, causation_id, traceparent,
          due_at, erased_at, last_at + interval '1 microsecond' * (row_number() over (order by due_at, timer.seq) - 1)
        from timer left join catalog_topics on catalog_topics.topic = timer.topic
        order by due_at, timer.seq
        on conflict (topic, dedupe_key) where dedupe_key is not null do nothing
        returning id, topic, created_at, seq, ordering_key, version, subscribers, octet_length(payload::text) as bytes
      ),
      marker as (
        insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, bytes, subscribers)
        select topic, created_at, seq, id, ordering_key, version, bytes, subscribers from event order by created_at
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

CREATE TABLE "timer_dedupe_keys" (
	"topic" text NOT NULL,
	"dedupe_key" text NOT NULL,
	"timer_id" uuid,
	"at" timestamp with time zone NOT NULL,
	CONSTRAINT "timer_dedupe_keys_topic_dedupe_key_pk" PRIMARY KEY("topic","dedupe_key")
);
--> statement-breakpoint
CREATE TABLE "timers" (
	"id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"timer_key" text,
	"due_at" timestamp with time zone NOT NULL,
	"seq" bigint GENERATED ALWAYS AS IDENTITY (sequence name "timers_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"payload" jsonb NOT NULL,
	"version" smallint NOT NULL,
	"producer" text NOT NULL,
	"ordering_key" text NOT NULL,
	"dedupe_key" text,
	"correlation_id" text NOT NULL,
	"causation_id" text,
	"traceparent" text,
	"set_at" timestamp with time zone NOT NULL,
	"erased_at" timestamp with time zone,
	"refused_at" timestamp with time zone,
	CONSTRAINT "timers_due_at" CHECK (due_at >= '1970-01-01 00:00:00Z' and due_at < '10000-01-01 00:00:00Z')
);
--> statement-breakpoint
ALTER TABLE "events" ADD COLUMN "due_at" timestamp with time zone;--> statement-breakpoint
CREATE UNIQUE INDEX "timers_key" ON "timers" USING btree ("timer_key","topic") WHERE timer_key is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "timers_due" ON "timers" USING btree ("due_at","seq") WHERE refused_at is null;--> statement-breakpoint
drop function postbud_emit;
--> statement-breakpoint
-- Makes the rights of the database those that `role_grants` lists. `migrate` calls it after the migrations, with the names of
-- all tables; a migration that drops and creates `postbud_emit` calls it too, with none, so that no producer is refused
-- between the two.
--
-- Postgres lets everybody call a new function. Nobody needs that of ours.
create or replace function postbud_apply_grants_1(tables text[]) returns void language plpgsql as $$
declare
  functions oid[] := array(
    select oid from pg_proc
    where pronamespace = 'public'::regnamespace and (proname like 'postbud\_%' or proname = 'refuse_change') order by 1);
  function regprocedure;
  relation text;
  granted record;
begin
  -- Two at once would change the same rows of Postgres's own tables. 7, 1 is the lock of `migrate`.
  perform pg_advisory_xact_lock(7, 2);
  for function in
    select oid from pg_proc where oid = any (functions)
      and (proacl is null or exists (select from aclexplode(proacl) where grantee = 0))
  loop
    execute format('revoke execute on function %s from public', function);
  end loop;

  -- The rows of a role that does not exist wait for it: a restored backup may come before its roles.
  for granted in select distinct rolname as role, may from role_grants join pg_roles on rolname = role loop
    if not has_schema_privilege(granted.role, 'public', 'usage') then
      execute format('grant usage on schema public to %I', granted.role);
    end if;
    if granted.may = 'emit' then
      execute format('grant execute on function postbud_emit, postbud_cancel_timer to %I', granted.role);
      continue;
    end if;
    foreach relation in array tables loop
      execute format('grant %s on public.%I to %I', case
        when granted.may = 'read' or relation in ('role_grants', 'catalog_topics') then 'select'
        when exists (select from pg_trigger join pg_proc on pg_proc.oid = tgfoid
          where tgrelid = format('public.%I', relation)::regclass and proname = 'refuse_change') then 'select, insert'
        else 'select, insert, update, delete' end, relation, granted.role);
    end loop;
    for function in
      -- Those that change something are volatile.
      select oid from pg_proc where oid = any (functions)
        and (provolatile <> 'v' or granted.may = 'relay' and proname not like '%\_grants\_%')
    loop
      execute format('grant execute on function %s to %I', function, granted.role);
    end loop;
    continue when granted.may = 'read';
    execute format('grant usage on sequence delivery_positions to %I', granted.role);
  end loop;
end
$$;
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
  delete from timers
  where timers.topic = postbud_cancel_timer.topic and timers.timer_key = postbud_cancel_timer.timer_key;
  return found;
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
  delete from timers where timers.topic = postbud_cancel_timer_once_1.topic
    and timers.timer_key = postbud_cancel_timer_once_1.timer_key
  returning id into cancelled;
  update timer_dedupe_keys set timer_id = cancelled where timer_dedupe_keys.topic = postbud_cancel_timer_once_1.topic
    and timer_dedupe_keys.dedupe_key = postbud_cancel_timer_once_1.dedupe_key;
  return json_build_object('id', cancelled, 'isNew', true);
end
$$;
--> statement-breakpoint
-- Records an event in the outbox, in the caller's transaction: `emit` for producers in other languages, and what `emit` of
-- the package calls. It runs with the owner's rights, so that producers need none on any table.
--
-- `topic` must be one of the catalog that the last `migrate` wrote, and the caller's role be granted its producer;
-- `payload` must match its schema, of this version or, for producers that are older than the
-- catalog, of an earlier one; `version` says which to try first. Fields that the schema does not name are left out. By default `ordering_key` is the
-- topic's own. A `dedupe_key` makes the event unique in its topic: emitting it again returns the id of the first.
--
-- With `at` it sets a timer: the event is recorded when that time has come. The same `timer_key` again moves it.
--
-- Returns the event's id, a UUIDv7. Raises PB001 for an unknown topic or version, PB002 for a payload or a key that does not
-- fit, and PB004 for a topic that the role may not emit: the message names each wrong field by its path, and the detail has
-- the same as JSON. The transaction is aborted then, as by any error.
create or replace function postbud_emit(
  topic text, payload jsonb, ordering_key text default null, dedupe_key text default null,
  correlation_id text default null, causation_id text default null, traceparent text default null, version int default null,
  at timestamptz default null, timer_key text default null
)
returns uuid language plpgsql security definer
-- Temporary tables come last: unnamed they would come first, and a producer's `catalog_topics` with them.
set search_path = pg_catalog, public, pg_temp as $$
#variable_conflict use_column
declare
  known catalog_topics;
  as_version smallint;
  tried smallint;
  checked record;
  newest record;
  stored jsonb;
  given_keys record;
  new_id uuid;
  place record;
begin
  known := postbud_require_emitter_1(postbud_emit.topic);
  if postbud_emit.version > known.version then
    raise exception using errcode = 'PB001',
      message = format('unknown version %s of %s', postbud_emit.version, known.topic),
      hint = format('this database has version %s: run npm run migrate of the release that has version %s first',
        known.version, postbud_emit.version);
  end if;
  for tried in
    select published.version::smallint from jsonb_object_keys(known.schemas) as published(version)
    order by published.version::smallint <= postbud_emit.version desc nulls last, 1 desc
  loop
    checked := postbud_parse_2(known.schemas -> tried::text, array[coalesce(postbud_emit.payload, 'null')]);
    if newest is null then
      newest := checked;
    end if;
    if checked.places = '{}' then
      as_version := tried;
      exit;
    end if;
  end loop;
  if as_version is null then
    perform postbud_refuse_payload_1(known.topic, newest.paths, newest.problems);
  end if;
  stored := coalesce(checked.parsed[1], postbud_emit.payload);
  select array_agg(name) as names, array_agg('expected at most 255 characters'::text) as problems into given_keys
  from (values ('ordering_key', postbud_emit.ordering_key), ('dedupe_key', postbud_emit.dedupe_key),
    ('correlation_id', postbud_emit.correlation_id), ('causation_id', postbud_emit.causation_id),
    ('traceparent', postbud_emit.traceparent), ('timer_key', postbud_emit.timer_key)) as keys(name, value)
  where length(value) > 255;
  if given_keys.names is not null then
    perform postbud_refuse_payload_1(known.topic, given_keys.names, given_keys.problems);
  end if;
  if postbud_emit.at is null and postbud_emit.timer_key is not null then
    perform postbud_refuse_payload_1(known.topic, '{timer_key}', '{expected with at}');
  end if;
  -- UUIDv7: 48 bits of milliseconds before a random UUID's, whose version becomes 7. A timer's are those of its event.
  new_id := encode(set_bit(set_bit(
    overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from
      case when postbud_emit.at > clock_timestamp() then least(postbud_emit.at, clock_timestamp() + interval '366 days')
        else clock_timestamp() end
    ) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;
  if postbud_emit.at is not null then
    return postbud_set_timer_1(new_id, known.topic, postbud_emit.timer_key, postbud_emit.at, stored, as_version,
      known.producer, coalesce(postbud_emit.ordering_key, stored ->> known.ordered_by, ''), postbud_emit.dedupe_key,
      coalesce(postbud_emit.correlation_id, postbud_emit.causation_id, new_id::text), postbud_emit.causation_id,
      postbud_emit.traceparent);
  end if;

  -- The first half of the quiet fence (lib/bus/outbox/record.ts): the emitter lock first, then the timestamp.
  perform pg_advisory_xact_lock_shared(36951, hashtext(known.topic));
  insert into events (id, topic, payload, version, producer, subscribers, open, ordering_key, dedupe_key,
    correlation_id, causation_id, traceparent, created_at)
  values (new_id, known.topic, stored, as_version, known.producer, known.subscribers,
    cardinality(known.subscribers),
    coalesce(postbud_emit.ordering_key, stored ->> known.ordered_by, ''), postbud_emit.dedupe_key,
    -- An event without a cause starts a correlation of its own.
    coalesce(postbud_emit.correlation_id, postbud_emit.causation_id, new_id::text), postbud_emit.causation_id,
    postbud_emit.traceparent, greatest(clock_timestamp(), now()))
  on conflict (topic, dedupe_key) where dedupe_key is not null do nothing
  returning events.created_at, events.seq, events.ordering_key into place;
  if not found then
    return (select id from events where events.topic = known.topic and events.dedupe_key = postbud_emit.dedupe_key);
  end if;
  insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, payload_bytes, subscribers)
  values (known.topic, place.created_at, place.seq, new_id, place.ordering_key, cardinality(known.subscribers),
    octet_length(stored::text), known.subscribers);
  return new_id;
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
    from timers where id = any (taken) and erased_at is null group by 1, 2
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
-- Requires that the catalog has a topic, and that the caller of a function with the owner's rights may emit it.
--
-- Returns the topic's row. Raises PB001 for an unknown topic and PB004 for one that the role may not emit.
create or replace function postbud_require_emitter_1(topic text) returns catalog_topics language plpgsql stable as $$
#variable_conflict use_column
declare
  known catalog_topics;
  -- Inside, `current_user` is the owner. The role is the one of `set role` where there is one, as for any right.
  caller name := case current_setting('role') when 'none' then session_user else current_setting('role') end;
begin
  select * into known from catalog_topics where catalog_topics.topic = postbud_require_emitter_1.topic;
  if not found then
    raise exception using errcode = 'PB001',
      message = format('unknown topic %s', coalesce(to_json(postbud_require_emitter_1.topic)::text, 'null')),
      hint = coalesce(
        (select 'did you mean ' || near.topic || '?'
          from (
            select catalog_topics.topic,
              postbud_edits_1(lower(postbud_require_emitter_1.topic), catalog_topics.topic) as edits
            from catalog_topics
            -- Longer names than any topic's cost time and are near to none.
            where length(postbud_require_emitter_1.topic) <= 100
            order by edits, catalog_topics.topic limit 1
          ) as near
          where edits <= greatest(1, length(postbud_require_emitter_1.topic) / 3)),
        case when exists (select from catalog_topics) then 'npx postbud catalog lists the topics'
          else 'the catalog is empty: run npm run migrate' end);
  end if;
  -- Who may write to the table needs no grant: the owner, the relays.
  if not has_table_privilege(caller, 'events', 'insert') and not exists (
    select from role_grants join pg_roles on rolname = role
    where may = 'emit' and producer = known.producer and pg_has_role(caller, pg_roles.oid, 'usage'))
  then
    raise exception using errcode = 'PB004',
      message = format('%s may not emit %s: it is granted %s', caller, known.topic, coalesce(
        (select 'the topics of ' || string_agg(distinct producer, ', ' order by producer)
          from role_grants join pg_roles on rolname = role
          where may = 'emit' and pg_has_role(caller, pg_roles.oid, 'usage')), 'no topics')),
      hint = format('npm run grant -- --role %s --producer %s', caller, known.producer);
  end if;
  return known;
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
  return postbud_set_timer_1.id;
end
$$;
--> statement-breakpoint
select postbud_apply_grants_1('{}');

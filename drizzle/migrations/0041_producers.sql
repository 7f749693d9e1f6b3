-- Which role may do what with the bus, as `npm run grant` recorded it; `postbud_apply_grants_1` makes it so.
create table role_grants (
  role text not null,
  -- emit: call postbud_emit for the topics of `producer`. relay: all that the functions and relays do. read: look.
  may text not null,
  producer text not null default '',
  primary key (role, may, producer),
  constraint role_grants_may check (may in ('emit', 'relay', 'read') and (may = 'emit') = (producer <> ''))
);--> statement-breakpoint
-- JavaScript has no date for -infinity or the year 294276. Events that are stored already are not read for this.
alter table events add constraint events_created_at
  check (created_at >= '1970-01-01 00:00:00Z' and created_at < '10000-01-01 00:00:00Z') not valid;--> statement-breakpoint
alter table awaiting_fan_out add constraint awaiting_fan_out_created_at
  check (created_at >= '1970-01-01 00:00:00Z' and created_at < '10000-01-01 00:00:00Z') not valid;--> statement-breakpoint
-- Checks values against a JSON Schema: the keywords that the catalog's schemas have (lib/db/publish-catalog.ts).
--
-- It takes all values that one place of the schema describes at once, such as the `amountMinor` of 8,000 lines, so that a
-- list costs a few statements for each field of its items, and not a call for each item.
--
-- `given` is null where there is nothing to check. `parsed` are the values without the fields that their schema does not
-- name, as `emit` stores them; null if all stay as they are. `places`, `paths` and `problems` say which values (counted
-- from 1) do not fit, where in them (`lines.0.amountMinor`) and why. No problem repeats a value, which may be personal.
create or replace function postbud_parse_2(
  schema jsonb, given jsonb[], out parsed jsonb[], out places int[], out paths text[], out problems text[]
)
language plpgsql immutable as $$
#variable_conflict use_column
declare
  -- Null where any type will do.
  types text[] := case jsonb_typeof(schema -> 'type') when 'string' then array[schema ->> 'type']
    when 'array' then array(select jsonb_array_elements_text(schema -> 'type')) end;
  takes_integers boolean := coalesce('integer' = any (types), false);
  expected text := 'expected ' || (
    select string_agg(case when name = 'null' then name when name ~ '^[aeiou]' then 'an ' || name else 'a ' || name end, ' or ')
    from unnest(types) as names(name));
  words jsonb := schema -> 'enum';
  shortest int := (schema ->> 'minLength')::int;
  longest int := (schema ->> 'maxLength')::int;
  pattern text := schema ->> 'pattern';
  quick_pattern text := schema ->> 'quickPattern';
  least numeric := (schema ->> 'minimum')::numeric;
  most numeric := (schema ->> 'maximum')::numeric;
  above numeric := (schema ->> 'exclusiveMinimum')::numeric;
  fewest_items int := (schema ->> 'minItems')::int;
  most_items int := (schema ->> 'maxItems')::int;
  has_failed boolean[];
  remaining jsonb[] := given;
  is_first boolean := true;
  place int;
  part record;
  found record;
  inner_values jsonb[];
  owners int[];
  indexes int[];
  names text[];
  is_named boolean;
  objects int;
  filled int;
begin
  places := '{}';
  paths := '{}';
  problems := '{}';
  if schema ? 'anyOf' then
    for part in select option from jsonb_array_elements(schema -> 'anyOf') as options(option) loop
      select * into found from postbud_parse_2(part.option, remaining);
      has_failed := array_fill(false, array[cardinality(given)]);
      foreach place in array found.places loop
        has_failed[place] := true;
      end loop;
      if found.parsed is not null then
        parsed := array(
          select case when value is null or failed then so_far else now end
          from unnest(coalesce(parsed, given), remaining, has_failed, found.parsed) as options(so_far, value, failed, now));
      end if;
      -- Where no option fits, the first one's problems count: the others allow null.
      if is_first then
        select found.places, found.paths, found.problems into places, paths, problems;
        is_first := false;
      else
        select coalesce(array_agg(issue.place), '{}'), coalesce(array_agg(issue.path), '{}'), coalesce(array_agg(issue.problem), '{}')
        into places, paths, problems
        from unnest(places, paths, problems) as issue(place, path, problem) where has_failed[issue.place];
      end if;
      exit when places = '{}';
      remaining := array(select case when failed then value end from unnest(remaining, has_failed) as tried(value, failed));
    end loop;
    return;
  end if;

  select coalesce(array_agg(checked.place) filter (where problem is not null), '{}'),
    coalesce(array_agg(''::text) filter (where problem is not null), '{}'),
    coalesce(array_agg(problem) filter (where problem is not null), '{}'),
    count(*) filter (where is_of = 'object')
  into places, paths, problems, objects
  from (
    select typed.place, is_of, case
      when is_of = any (types) or is_of is null or types is null
          or (takes_integers and is_of = 'number' and value::numeric = trunc(value::numeric)) then case
        when words is not null and not words @> value then 'expected one of ' || (
          select string_agg(word::text, ', ') from jsonb_array_elements(words) as allowed(word))
        when is_of = 'string' then case
          when length(value #>> '{}') < shortest then format('expected at least %s characters', shortest)
          when length(value #>> '{}') > longest then format('expected at most %s characters', longest)
          when coalesce((value #>> '{}') !~ quick_pattern, true) and (value #>> '{}') !~ pattern then coalesce(schema ->> 'message', 'expected a text that matches ' || pattern)
        end
        when is_of = 'number' then case
          when value::numeric < least then format('expected at least %s', least)
          when value::numeric > most then format('expected at most %s', most)
          when value::numeric <= above then format('expected more than %s', above)
        end
        when is_of = 'array' then case
          when jsonb_array_length(value) < fewest_items then format('expected at least %s items', fewest_items)
          when jsonb_array_length(value) > most_items then format('expected at most %s items', most_items)
        end
      end
      else expected || ', not ' || case when is_of = 'null' then is_of when is_of ~ '^[aeiou]' then 'an ' || is_of else 'a ' || is_of end
    end as problem
    from (
      select value, jsonb_typeof(value) as is_of, numbered.place from unnest(given) with ordinality as numbered(value, place)
      -- Otherwise the planner writes the function in each place that names its result.
      offset 0
    ) as typed
  ) as checked;

  if schema ? 'items' then
    select array_agg(item), array_agg(listed.place), array_agg(nth - 1) into inner_values, owners, indexes
    from unnest(given) with ordinality as listed(value, place),
      jsonb_array_elements(case jsonb_typeof(value) when 'array' then value end) with ordinality as items(item, nth);
    if inner_values is not null then
      select * into found from postbud_parse_2(schema -> 'items', inner_values);
      if found.parsed is not null then
        parsed := array(
          select coalesce(jsonb_agg(value order by nth) filter (where nth is not null), (array_agg(value))[1])
          from (
            select value, listed.place, null::int as nth from unnest(given) with ordinality as listed(value, place)
            union all
            select value, owner, nth from unnest(found.parsed, owners, indexes) as items(value, owner, nth)
          ) as parts
          group by parts.place order by parts.place);
      end if;
      paths := paths || array(
        select concat_ws('.', indexes[issue.place], nullif(issue.path, ''))
        from unnest(found.places, found.paths) as issue(place, path));
      places := places || array(select owners[issue.place] from unnest(found.places) as issue(place));
      problems := problems || found.problems;
    end if;
  end if;

  if schema ? 'properties' and objects > 0 then
    if coalesce(schema -> 'additionalProperties' = 'false', true) then
      names := array(select jsonb_object_keys(schema -> 'properties'));
      select array_agg(case when is_named then value
          else value - array(select jsonb_object_keys(value - names)) end),
        bool_and(is_named)
      into inner_values, is_named
      from (
        select value, jsonb_typeof(value) is distinct from 'object' or value - names = '{}' as is_named
        from unnest(given) as stripped(value)
      ) as stripped;
      if not is_named then
        parsed := inner_values;
      end if;
    end if;
    for part in
      select name, rule, schema -> 'required' ? name as is_required
      from jsonb_each(schema -> 'properties') as fields(name, rule)
    loop
      select array_agg(value -> part.name), count(value -> part.name) into inner_values, filled from unnest(given) as fields(value);
      if filled > 0 then
        select * into found from postbud_parse_2(part.rule, inner_values);
        if found.parsed is not null then
          parsed := array(
            select case when field is null then value else value || jsonb_build_object(part.name, field) end
            from unnest(coalesce(parsed, given), found.parsed) as objects(value, field));
        end if;
        places := places || found.places;
        paths := paths || array(select concat_ws('.', part.name, nullif(path, '')) from unnest(found.paths) as issue(path));
        problems := problems || found.problems;
      end if;
      if part.is_required and filled < objects then
        select places || array_agg(lacking.place), paths || array_agg(part.name), problems || array_agg('is missing'::text)
        into places, paths, problems
        from unnest(given) with ordinality as lacking(value, place)
        where jsonb_typeof(value) = 'object' and not value ? part.name;
      end if;
    end loop;
  end if;
end
$$;--> statement-breakpoint
-- Another list of arguments is another function: with both, `postbud_emit('booking.created', '{}')` would be either.
drop function postbud_emit(text, jsonb, text, text);--> statement-breakpoint
drop function postbud_parse_1(jsonb, jsonb, text);--> statement-breakpoint
-- Records an event in the outbox, in the caller's transaction: `emit` for producers in other languages, and what `emit` of
-- the package calls. It runs with the owner's rights, so that producers need none on any table.
--
-- `topic` must be one of the catalog that the last `migrate` wrote, and the caller's role be granted its producer;
-- `payload` must match its schema, of this version or, for producers that are older than the
-- catalog, of an earlier one; `version` says which to try first. Fields that the schema does not name are left out. By default `ordering_key` is the
-- topic's own. A `dedupe_key` makes the event unique in its topic: emitting it again returns the id of the first.
--
-- Returns the event's id, a UUIDv7. Raises PB001 for an unknown topic or version, PB002 for a payload or a key that does not
-- fit, and PB004 for a topic that the role may not emit: the message names each wrong field by its path, and the detail has
-- the same as JSON. The transaction is aborted then, as by any error.
create or replace function postbud_emit(
  topic text, payload jsonb, ordering_key text default null, dedupe_key text default null,
  correlation_id text default null, causation_id text default null, traceparent text default null, version int default null
)
returns uuid language plpgsql security definer
-- Temporary tables come last: unnamed they would come first, and a producer's `catalog_topics` with them.
set search_path = pg_catalog, public, pg_temp as $$
#variable_conflict use_column
declare
  known catalog_topics;
  -- Inside, `current_user` is the owner. The role is the one of `set role` where there is one, as for any right.
  caller name := case current_setting('role') when 'none' then session_user else current_setting('role') end;
  as_version smallint;
  tried smallint;
  checked record;
  newest record;
  stored jsonb;
  given_keys record;
  new_id uuid;
  place record;
begin
  select * into known from catalog_topics where catalog_topics.topic = postbud_emit.topic;
  if not found then
    raise exception using errcode = 'PB001',
      message = format('unknown topic %s', coalesce(to_json(postbud_emit.topic)::text, 'null')),
      hint = coalesce(
        (select 'did you mean ' || near.topic || '?'
          from (
            select catalog_topics.topic, postbud_edits_1(lower(postbud_emit.topic), catalog_topics.topic) as edits
            from catalog_topics
            -- Longer names than any topic's cost time and are near to none.
            where length(postbud_emit.topic) <= 100
            order by edits, catalog_topics.topic limit 1
          ) as near
          where edits <= greatest(1, length(postbud_emit.topic) / 3)),
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
    ('traceparent', postbud_emit.traceparent)) as keys(name, value)
  where length(value) > 255;
  if given_keys.names is not null then
    perform postbud_refuse_payload_1(known.topic, given_keys.names, given_keys.problems);
  end if;

  -- The first half of the quiet fence (lib/outbox/record.ts): the emitter lock first, then the timestamp.
  perform pg_advisory_xact_lock_shared(36951, hashtext(known.topic));
  -- UUIDv7: 48 bits of milliseconds before a random UUID's, whose version becomes 7.
  new_id := encode(set_bit(set_bit(
    overlay(uuid_send(gen_random_uuid())
      placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;
  insert into events (id, topic, payload, version, producer, subscribers, open, ordering_key, dedupe_key,
    correlation_id, causation_id, traceparent, created_at)
  values (new_id, known.topic, stored, as_version, known.producer, known.subscribers,
    cardinality(known.subscribers),
    coalesce(postbud_emit.ordering_key, stored ->> known.ordered_by, ''), postbud_emit.dedupe_key,
    -- An event without a cause starts a correlation of its own.
    coalesce(postbud_emit.correlation_id, postbud_emit.causation_id, new_id::text), postbud_emit.causation_id,
    postbud_emit.traceparent, clock_timestamp())
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
$$;--> statement-breakpoint
-- Raises PB002 with the first 20 problems of a payload.
create or replace function postbud_refuse_payload_1(topic text, paths text[], problems text[]) returns void language plpgsql as $$
declare
  -- As many as lib/outbox/errors.ts lists.
  listed constant int := 20;
  more int := cardinality(paths) - listed;
begin
  raise exception using errcode = 'PB002',
    message = format('the payload does not match %s: %s', topic, (
      select string_agg(concat_ws(': ', nullif(path, ''), problem), '; ')
      from unnest(paths[1:listed], problems[1:listed]) as issues(path, problem)))
      || case when more > 0 then format('; … and %s more', to_char(more, 'FM999,999,999')) else '' end,
    detail = (
      select jsonb_agg(jsonb_build_object('path', path, 'message', problem))
      from unnest(paths[1:listed], problems[1:listed]) as issues(path, problem))::text;
end
$$;--> statement-breakpoint
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
      execute format('grant execute on function postbud_emit to %I', granted.role);
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
    -- Relays vacuum two small tables (lib/deliveries/vacuum.ts). Before Postgres 17 only their owner can.
    if current_setting('server_version_num')::int >= 170000 then
      execute format('grant maintain on awaiting_fan_out, lanes to %I', granted.role);
    end if;
  end loop;
end
$$;--> statement-breakpoint
-- Takes all rights on the bus's tables and functions from a role, and gives it back those that `role_grants` still lists.
create or replace function postbud_withdraw_grants_1(from_role text, tables text[]) returns void language plpgsql as $$
declare
  function regprocedure;
  relation text;
begin
  if exists (select from pg_roles where rolname = from_role) then
    foreach relation in array tables loop
      execute format('revoke all on public.%I from %I', relation, from_role);
    end loop;
    execute format('revoke all on sequence delivery_positions from %I', from_role);
    for function in
      select oid from pg_proc where pronamespace = 'public'::regnamespace and proname like 'postbud\_%'
    loop
      execute format('revoke execute on function %s from %I', function, from_role);
    end loop;
  end if;
  perform postbud_apply_grants_1(tables);
end
$$;--> statement-breakpoint
do $$
declare
  function regprocedure;
  earlier record;
begin
  -- Roles that were granted rights on tables by hand, as earlier releases documented, go on as they are: until now they
  -- could call every function. `npm run grant` lists them.
  for earlier in
    select distinct grantee::regrole as role, relname = 'lanes' as is_relay
    from pg_class, aclexplode(relacl)
    where relnamespace = 'public'::regnamespace and grantee <> 0 and grantee <> relowner
      and (relname, privilege_type) in (('events', 'INSERT'), ('lanes', 'UPDATE'))
  loop
    for function in
      select oid from pg_proc
      where pronamespace = 'public'::regnamespace and (proname = 'postbud_emit' or earlier.is_relay and proname like 'postbud\_%')
    loop
      execute format('grant execute on function %s to %s', function, earlier.role);
    end loop;
  end loop;
  perform postbud_apply_grants_1('{}');
end
$$;

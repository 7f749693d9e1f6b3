-- The catalog as `postbud_emit` reads it. `migrate` writes it after the migrations, from the catalog of its release.
create table catalog_topics (
  topic text primary key,
  producer text not null,
  subscribers text[] not null,
  version smallint not null,
  ordered_by text,
  schemas jsonb not null,
  constraint catalog_topics_version check (version > 0 and schemas ? version::text)
);--> statement-breakpoint
-- Checks a value against a JSON Schema: the keywords that the catalog's schemas have (lib/db/publish-catalog.ts).
--
-- `parsed` is the value without the fields that its schema does not name, as `emit` stores it. `issues` says where and why
-- it does not fit: [{ "path": "lines.0.amountMinor", "message": "…" }]. No message repeats a value, which may be personal.
create or replace function postbud_parse_1(schema jsonb, value jsonb, path text, out parsed jsonb, out issues jsonb)
language plpgsql immutable as $$
declare
  is_of text := jsonb_typeof(value);
  -- One name or a list of them; null where any type will do.
  types jsonb := case jsonb_typeof(schema -> 'type') when 'string' then jsonb_build_array(schema -> 'type')
    else schema -> 'type' end;
  written text := case when jsonb_typeof(value) = 'string' then value #>> '{}' end;
  number numeric := case when jsonb_typeof(value) = 'number' then (value #>> '{}')::numeric end;
  inner_path text := case when path = '' then '' else path || '.' end;
  problem text;
  part record;
  found record;
begin
  parsed := value;
  issues := '[]';
  if schema ? 'anyOf' then
    for part in select option from jsonb_array_elements(schema -> 'anyOf') as options(option) loop
      select * into found from postbud_parse_1(part.option, value, path);
      if found.issues = '[]' then
        parsed := found.parsed;
        issues := '[]';
        return;
      end if;
      -- The first option's: the others allow null.
      if issues = '[]' then
        issues := found.issues;
      end if;
    end loop;
    return;
  end if;

  if not (types ? is_of or (types ? 'integer' and is_of = 'number' and number = trunc(number))) then
    problem := format('expected %s, not %s',
      (select string_agg(case when name = 'null' then name when name ~ '^[aeiou]' then 'an ' || name else 'a ' || name end,
        ' or ') from jsonb_array_elements_text(types) as names(name)),
      case when is_of = 'null' then is_of when is_of ~ '^[aeiou]' then 'an ' || is_of else 'a ' || is_of end);
  elsif schema ? 'enum' and not schema -> 'enum' @> value then
    problem := format('expected one of %s',
      (select string_agg(option::text, ', ') from jsonb_array_elements(schema -> 'enum') as options(option)));
  elsif written is not null then
    if length(written) < (schema ->> 'minLength')::int then
      problem := format('expected at least %s characters', schema ->> 'minLength');
    elsif length(written) > (schema ->> 'maxLength')::int then
      problem := format('expected at most %s characters', schema ->> 'maxLength');
    elsif written !~ (schema ->> 'pattern') then
      problem := coalesce(schema ->> 'message', 'expected a text that matches ' || (schema ->> 'pattern'));
    end if;
  elsif number is not null then
    if number < (schema ->> 'minimum')::numeric then
      problem := format('expected at least %s', schema ->> 'minimum');
    elsif number > (schema ->> 'maximum')::numeric then
      problem := format('expected at most %s', schema ->> 'maximum');
    elsif number <= (schema ->> 'exclusiveMinimum')::numeric then
      problem := format('expected more than %s', schema ->> 'exclusiveMinimum');
    end if;
  elsif is_of = 'array' then
    if jsonb_array_length(value) < (schema ->> 'minItems')::int then
      problem := format('expected at least %s items', schema ->> 'minItems');
    elsif jsonb_array_length(value) > (schema ->> 'maxItems')::int then
      problem := format('expected at most %s items', schema ->> 'maxItems');
    end if;
    if schema ? 'items' then
      parsed := '[]';
      for part in
        select item, place - 1 as place from jsonb_array_elements(value) with ordinality as items(item, place) order by place
      loop
        select * into found from postbud_parse_1(schema -> 'items', part.item, inner_path || part.place);
        parsed := parsed || jsonb_build_array(found.parsed);
        issues := issues || found.issues;
      end loop;
    end if;
  elsif is_of = 'object' and schema ? 'properties' then
    if not coalesce(schema -> 'additionalProperties' <> 'false', false) then
      parsed := '{}';
    end if;
    for part in select name, rule from jsonb_each(schema -> 'properties') as fields(name, rule) loop
      if value ? part.name then
        select * into found from postbud_parse_1(part.rule, value -> part.name, inner_path || part.name);
        parsed := parsed || jsonb_build_object(part.name, found.parsed);
        issues := issues || found.issues;
      elsif schema -> 'required' ? part.name then
        issues := issues || jsonb_build_object('path', inner_path || part.name, 'message', 'is missing');
      end if;
    end loop;
  end if;
  if problem is not null then
    issues := issues || jsonb_build_object('path', path, 'message', problem);
  end if;
end
$$;--> statement-breakpoint
-- Counts the single-letter changes between two names (Levenshtein).
create or replace function postbud_edits_1(one text, other text) returns int language plpgsql immutable as $$
declare
  costs int[] := array(select generate_series(0, length(other)));
  row int[];
begin
  for i in 1..length(one) loop
    row := array[i];
    for j in 1..length(other) loop
      row[j + 1] := least(
        row[j] + 1, costs[j + 1] + 1, costs[j] + (substr(one, i, 1) <> substr(other, j, 1))::int);
    end loop;
    costs := row;
  end loop;
  return costs[length(other) + 1];
end
$$;--> statement-breakpoint
-- Records an event in the outbox, in the caller's transaction: `emit` for producers in other languages.
--
-- `topic` must be one of the catalog that the last `migrate` wrote; `payload` must match its schema, of this version or, for
-- producers that are older than the catalog, of an earlier one. Fields that the schema does not name are left out.
-- By default `ordering_key` is the topic's own. A `dedupe_key` makes the event unique in its topic: emitting it again
-- returns the id of the first.
--
-- Returns the event's id, a UUIDv7. Raises PB001 for an unknown topic and PB002 for a payload or a key that does not fit:
-- the message names each wrong field by its path, and the detail has the same as JSON. The transaction is aborted then, as
-- by any error.
create or replace function postbud_emit(topic text, payload jsonb, ordering_key text default null, dedupe_key text default null)
returns uuid language plpgsql
-- The tables are found whatever path the producer has set.
set search_path from current as $$
#variable_conflict use_column
declare
  known catalog_topics;
  as_version smallint;
  tried smallint;
  checked record;
  newest record;
  is_key text;
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
        case when exists (select from catalog_topics) then 'select topic from catalog_topics lists the topics'
          else 'the catalog is empty: run npm run migrate' end);
  end if;
  for tried in select version::smallint from jsonb_object_keys(known.schemas) as schemas(version) order by 1 desc loop
    select * into checked from postbud_parse_1(known.schemas -> tried::text, coalesce(postbud_emit.payload, 'null'), '');
    if tried = known.version then
      newest := checked;
    end if;
    if checked.issues = '[]' then
      as_version := tried;
      exit;
    end if;
  end loop;
  if as_version is null then
    raise exception using errcode = 'PB002',
      message = format('the payload does not match %s: %s', known.topic, (
        select string_agg(concat_ws(': ', nullif(issue ->> 'path', ''), issue ->> 'message'), '; ')
        from jsonb_array_elements(newest.issues) as issues(issue))),
      detail = newest.issues::text;
  end if;
  for is_key in
    select name from (values ('ordering_key', postbud_emit.ordering_key), ('dedupe_key', postbud_emit.dedupe_key))
      as keys(name, value)
    where length(value) > 255
  loop
    raise exception using errcode = 'PB002', message = is_key || ': expected at most 255 characters',
      detail = jsonb_build_array(jsonb_build_object('path', is_key, 'message', 'expected at most 255 characters'))::text;
  end loop;

  -- The first half of the quiet fence (lib/outbox/record.ts): the emitter lock first, then the timestamp.
  perform pg_advisory_xact_lock_shared(36951, hashtext(known.topic));
  -- UUIDv7: 48 bits of milliseconds before a random UUID's, whose version becomes 7.
  new_id := encode(set_bit(set_bit(
    overlay(uuid_send(gen_random_uuid())
      placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;
  insert into events (id, topic, payload, version, producer, subscribers, open, ordering_key, dedupe_key,
    correlation_id, created_at)
  values (new_id, known.topic, checked.parsed, as_version, known.producer, known.subscribers,
    cardinality(known.subscribers),
    coalesce(postbud_emit.ordering_key, checked.parsed ->> known.ordered_by, ''), postbud_emit.dedupe_key,
    new_id::text, clock_timestamp())
  on conflict (topic, dedupe_key) where dedupe_key is not null do nothing
  returning events.created_at, events.seq, events.ordering_key into place;
  if not found then
    return (select id from events where events.topic = known.topic and events.dedupe_key = postbud_emit.dedupe_key);
  end if;
  insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, payload_bytes, subscribers)
  values (known.topic, place.created_at, place.seq, new_id, place.ordering_key, cardinality(known.subscribers),
    octet_length(checked.parsed::text), known.subscribers);
  return new_id;
end
$$;

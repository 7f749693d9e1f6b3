-- Checks values against a JSON Schema: the keywords that the catalog's schemas have (lib/platform/db/publish-catalog.ts).
--
-- It takes all values that one place of the schema describes at once, such as the `amountMinor` of 8,000 lines, so that a
-- list costs a few statements for each field of its items, and not a call for each item.
--
-- `given` is null where there is nothing to check. `parsed` are the values without the fields that their schema does not
-- name and with instants at `+00:00` written with `Z`, as `emit` stores them; null if all stay as they are. `places`, `paths` and `problems` say which values (counted
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
  -- No other pattern ends so.
  is_instant boolean := coalesce(schema ->> 'quickPattern' like '%Z$', false);
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

  if is_instant and exists (
    select from unnest(given) as spelt(value) where jsonb_typeof(value) = 'string' and value #>> '{}' ~ '[+-]00:00$')
  then
    given := array(
      select case jsonb_typeof(value)
        when 'string' then to_jsonb(regexp_replace(value #>> '{}', '[+-]00:00$', 'Z')) else value end
      from unnest(given) with ordinality as spelt(value, nth) order by nth);
    parsed := given;
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
          when abs(value::numeric) > 1.7976931348623158e308 then 'numbers beyond a double cannot be stored'
          when value::numeric < least then format('expected at least %s', least)
          when value::numeric > most then format('expected at most %s', most)
          when value::numeric <= above then format('expected more than %s', above)
        end
        when is_of = 'array' then case
          when jsonb_array_length(value) < fewest_items then format('expected at least %s items', fewest_items)
          when jsonb_array_length(value) > most_items then format('expected at most %s items', most_items)
        end
        -- What no schema names is kept as it is.
        when schema -> 'additionalProperties' <> 'false'
            and value @? '$.** ? (@ > 1.7976931348623158e308 || @ < -1.7976931348623158e308)'
          then 'numbers beyond a double cannot be stored'
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
$$;

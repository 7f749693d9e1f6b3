-- Compares a posted event with the one that was recorded under its dedupe key: its data as the schema of the recorded version
-- keeps them, in whatever order their fields come, its ordering key, and a timer's time and key. What belongs to the request,
-- as the trace does, may differ.
--
-- Returns the first attribute that differs; null for the same fact. What an erasure has overwritten, or a timer that was moved
-- or cancelled since, can't be compared and counts as the same.
create or replace function postbud_differing_fact_1(recorded uuid, event jsonb) returns text language plpgsql stable as $$
declare
  earlier record;
  known catalog_topics;
  checked record;
begin
  select payload, version, ordering_key, due_at, null as timer_key, false as is_timer into earlier
  from events where id = recorded and erased_at is null;
  if not found then
    select payload, version, ordering_key, due_at, timer_key, true as is_timer into earlier
    from timers where id = recorded and erased_at is null;
    if not found then
      return null;
    end if;
  end if;
  select * into known from catalog_topics where topic = event ->> 'type';
  if event -> 'data' <> earlier.payload and known.schemas ? earlier.version::text then
    checked := postbud_parse_2(known.schemas -> earlier.version::text, array[event -> 'data']);
  else
    select null::jsonb[] as parsed, '{}'::int[] as places into checked;
  end if;
  return case
    when checked.places <> '{}' or coalesce(checked.parsed[1], event -> 'data') <> earlier.payload then 'data'
    when coalesce(event ->> 'orderingkey', earlier.payload ->> known.ordered_by, '') <> earlier.ordering_key
      then 'partitionkey'
    -- After a duration, the same again is due later.
    when event ->> 'at' is not null
      and greatest((event ->> 'at')::timestamptz, '1970-01-01 00:00:00Z') <> earlier.due_at then 'at'
    when earlier.is_timer and event ->> 'timerkey' is distinct from earlier.timer_key then 'timerkey'
  end;
end
$$;

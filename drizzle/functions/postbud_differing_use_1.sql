-- Compares how a posted event and the one that has its dedupe key are meant: as an event, as a timer or as a cancellation.
--
-- Returns `at` where they differ. A timer that was moved or cancelled since, and an event that was erased, are like any.
create or replace function postbud_differing_use_1(event jsonb) returns text language sql stable as $$
  select 'at'
  where case
    when event ->> 'at' = 'never' then exists (
      select from events
      where topic = event ->> 'type' and dedupe_key = event ->> 'dedupekey' and erased_at is null
      union all
      select from timers where topic = event ->> 'type' and dedupe_key = event ->> 'dedupekey' and erased_at is null)
    when event ? 'at' then exists (
      select from events
      where topic = event ->> 'type' and dedupe_key = event ->> 'dedupekey' and due_at is null and erased_at is null
      union all
      -- Of a cancellation that found no timer.
      select from timer_dedupe_keys
      where topic = event ->> 'type' and dedupe_key = event ->> 'dedupekey' and timer_id is null)
    else exists (
      select from timer_dedupe_keys as used where topic = event ->> 'type' and dedupe_key = event ->> 'dedupekey'
        and not exists (select from events where events.id = used.timer_id and erased_at is not null))
  end
$$;

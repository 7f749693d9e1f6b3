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

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

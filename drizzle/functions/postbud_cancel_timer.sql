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

-- Deletes a timer that its producer cancels, and returns its id; null where there is none. One that was set aside is that no
-- longer.
create or replace function postbud_delete_timer_1(topic text, timer_key text) returns uuid language plpgsql as $$
#variable_conflict use_column
declare
  deleted record;
begin
  loop
    delete from timers
    where timers.topic = postbud_delete_timer_1.topic and timers.timer_key = postbud_delete_timer_1.timer_key
    returning id, refused_at into deleted;
    exit when found or not exists (
      -- The deletion may have waited for a transaction that deleted the timer and set it again.
      select from timers
      where timers.topic = postbud_delete_timer_1.topic and timers.timer_key = postbud_delete_timer_1.timer_key
    );
  end loop;
  if deleted.refused_at is not null then
    perform postbud_settle_unfit_timer_1(
      postbud_delete_timer_1.topic, postbud_delete_timer_1.timer_key, 'cancelled by its producer');
  end if;
  return deleted.id;
end
$$;

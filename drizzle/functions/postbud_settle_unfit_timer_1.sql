-- Records that a timer is no longer set aside, because its producer has moved or cancelled it. A row that an operator is
-- repairing is left to that operator.
create or replace function postbud_settle_unfit_timer_1(topic text, timer_key text, reason text)
returns void language sql as $$
  update set_aside set repaired_at = clock_timestamp(), repaired_by = 'postbud',
    reason = postbud_settle_unfit_timer_1.reason
  where id in (
    select id from set_aside
    where set_aside.topic = postbud_settle_unfit_timer_1.topic and kind = 'unfit_timer' and repaired_at is null
      and found ->> 'timerKey' = timer_key
    for update skip locked
  )
$$;

-- The worst state of an event's deliveries, as its generated column has it, from other counters than the stored ones.
create or replace function postbud_event_state(open int, failing int, dead_lettered int) returns delivery_state
language sql stable parallel safe as $$
  select (case when dead_lettered > 0 then 'dead_lettered' when failing > 0 then 'failing'
    when open > 0 then 'pending' else 'delivered' end)::delivery_state
$$;

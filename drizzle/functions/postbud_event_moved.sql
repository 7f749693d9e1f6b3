-- An event that went from one state to another, as a change of its topic's events.
create or replace function postbud_event_moved(topic text, was delivery_state, becomes delivery_state)
returns postbud_change_1 language sql stable parallel safe as $$
  select row(topic, '', (becomes = 'pending')::int - (was = 'pending')::int,
    (becomes = 'failing')::int - (was = 'failing')::int,
    (becomes = 'dead_lettered')::int - (was = 'dead_lettered')::int, 0, 0, 0, null, null)::postbud_change_1
$$;

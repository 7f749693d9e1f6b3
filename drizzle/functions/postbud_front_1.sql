-- How far a lane may be delivered: up to the front of a backfill that is under way in its subscription, or to the first
-- dead letter that halts it (of a shared lane: that halts this key). Null where nothing bounds it. Most of the time nothing
-- bounds any lane: the callers look for that first.
create or replace function postbud_front_1(of_topic text, of_subscriber text, home bigint, of_key text) returns bigint
language sql stable as $$
  select least((
    select front from backfills where topic = of_topic and subscriber = of_subscriber and ended_at is null
  ), (
    select min(halts.position) from halts join deliveries using (lane_id, position)
    where halts.lane_id = home and halts.lane_key is not distinct from of_key
      and deliveries.state = 'dead_lettered' and deliveries.dismissed_at is null
  ))
$$;

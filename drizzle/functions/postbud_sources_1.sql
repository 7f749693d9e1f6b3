-- The lanes that events of a topic are found in: those of its other subscribers. Every event has a delivery in one.
create or replace function postbud_sources_1(of_topic text, but_subscriber text) returns bigint[] language sql stable as $$
  select coalesce(array_agg(id), '{}') from lanes
  where topic = of_topic and subscriber <> but_subscriber and home_id is null
$$;

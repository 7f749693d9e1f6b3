-- A lane that takes events and is deleted is made again with the next event: no row of home_lanes may name it any more.
create or replace function postbud_forget_home_lane_1() returns trigger language plpgsql as $$
begin
  delete from home_lanes where lane_id = old.id and topic = old.topic and subscriber = old.subscriber;
  return null;
end
$$;

-- The shared lane of an ordering key, 1 to 8. By MD5, since `hashtext` may change with Postgres's version, and a key
-- that changed lanes with it could overtake itself.
create or replace function postbud_slot(ordering_key text) returns smallint language sql immutable parallel safe as $$
  select (get_byte(decode(md5(ordering_key), 'hex'), 0) % 8 + 1)::smallint
$$;--> statement-breakpoint
-- Release 0.2 makes a lane for each key. While deliveries of the key are open in a shared lane, a relay of 0.2 would let
-- newer ones overtake them: it leaves the fan-out to a relay of this release.
create or replace function postbud_refuse_lane_of_key() returns trigger language plpgsql as $$
begin
  if exists (
    select from lanes as home join deliveries on lane_id = home.id and deliveries.lane_key = new.ordering_key
    where home.topic = new.topic and home.subscriber = new.subscriber
      and home.slot = postbud_slot(new.ordering_key) and home.held_key = ''
      and deliveries.state in ('pending', 'failing')
  ) then
    raise exception 'events of this ordering key are on their way in a shared lane: a relay of a newer release fans out'
      using errcode = 'object_in_use';
  end if;
  return new;
end
$$;--> statement-breakpoint
create or replace trigger lanes_of_keys before insert on lanes
  for each row when (new.ordering_key <> '') execute function postbud_refuse_lane_of_key();

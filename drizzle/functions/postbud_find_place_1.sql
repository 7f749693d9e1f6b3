-- Finds the place of an event. Places are in the order of creation, so its stream is halved until it is found; where the clock has
-- stepped back, the block ranges of `log_event` find it. Null while it awaits its place.
create or replace function postbud_find_place_1(
  of_event uuid, of_topic text, of_key text, created timestamptz, of_seq bigint, out stream int, out "position" bigint
) language plpgsql stable as $$
#variable_conflict use_column
begin
  if exists (select from awaiting where topic = of_topic and created_at = created and seq = of_seq) then
    return;
  end if;
  postbud_find_place_1.stream := (
    select id from streams where topic = of_topic and slot = case when of_key = '' then 0 else postbud_slot(of_key) end
  );
  postbud_find_place_1.position := postbud_first_since_1(postbud_find_place_1.stream, created, of_seq);
  if not exists (
    select from log
    where log.stream = postbud_find_place_1.stream and log.position = postbud_find_place_1.position and event_id = of_event
  ) then
    select log.stream, log.position into postbud_find_place_1.stream, postbud_find_place_1.position
    from log where event_id = of_event;
  end if;
end
$$;

-- Reserves positions, so that what is drawn next is never drawn again. The caller commits with the disk. In another life of
-- the server than that which reserved the last ones, what was drawn of them may be forgotten: all of them are left out.
create or replace function postbud_reserve_positions_1(of_server text, most int) returns bigint language plpgsql as $$
declare
  reserved record;
begin
  select * into reserved from reserved_positions for update;
  if not found then
    insert into reserved_positions values (0, '') returning * into reserved;
  end if;
  if reserved.server <> of_server and reserved.until > coalesce(pg_sequence_last_value('delivery_positions'), 0) then
    perform setval('delivery_positions', reserved.until);
  end if;
  if reserved.server <> of_server
    or coalesce(pg_sequence_last_value('delivery_positions'), 0) + most > reserved.until
  then
    update reserved_positions set server = of_server,
      until = coalesce(pg_sequence_last_value('delivery_positions'), 0) + most + 100000
    returning until into reserved.until;
  end if;
  return reserved.until;
end
$$;

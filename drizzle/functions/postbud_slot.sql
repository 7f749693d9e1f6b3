-- The shared lane of an ordering key, 1 to 8. By MD5, since `hashtext` may change with Postgres's version, and a key
-- that changed lanes with it could overtake itself.
create or replace function postbud_slot(ordering_key text) returns smallint language sql immutable parallel safe as $$
  select (get_byte(decode(md5(ordering_key), 'hex'), 0) % 8 + 1)::smallint
$$;

-- Raises where a turn or a settlement would decide by an old snapshot. In REPEATABLE READ a turn that waited for a placing lock
-- does not see what was committed meanwhile, and places a later event first.
create or replace function postbud_require_read_committed_1() returns void language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'PB003',
      message = format('the event bus decides in READ COMMITTED only, and this transaction is in %s',
        upper(current_setting('transaction_isolation'))),
      hint = 'begin it with: begin isolation level read committed';
  end if;
end
$$;

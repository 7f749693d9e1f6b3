-- Makes the rights of the database those that `role_grants` lists. `migrate` calls it at its end, with the names of all tables.
--
-- Postgres lets everybody call a new function. Nobody needs that of ours.
create or replace function postbud_apply_grants_1(tables text[]) returns void language plpgsql as $$
declare
  functions oid[] := array(
    select oid from pg_proc
    where pronamespace = 'public'::regnamespace and (proname like 'postbud\_%' or proname = 'refuse_change') order by 1);
  function regprocedure;
  relation text;
  granted record;
begin
  -- Two at once would change the same rows of Postgres's own tables. 7, 1 is the lock of `migrate`.
  perform pg_advisory_xact_lock(7, 2);
  for function in
    select oid from pg_proc where oid = any (functions)
      and (proacl is null or exists (select from aclexplode(proacl) where grantee = 0))
  loop
    execute format('revoke execute on function %s from public', function);
  end loop;

  -- The rows of a role that does not exist wait for it: a restored backup may come before its roles.
  for granted in select distinct rolname as role, may from role_grants join pg_roles on rolname = role loop
    if not has_schema_privilege(granted.role, 'public', 'usage') then
      execute format('grant usage on schema public to %I', granted.role);
    end if;
    if granted.may = 'emit' then
      execute format('grant execute on function postbud_emit, postbud_cancel_timer to %I', granted.role);
      continue;
    end if;
    foreach relation in array tables loop
      execute format('grant %s on public.%I to %I', case
        when granted.may = 'read' or relation in ('role_grants', 'catalog_topics') then 'select'
        when exists (select from pg_trigger join pg_proc on pg_proc.oid = tgfoid
          where tgrelid = format('public.%I', relation)::regclass and proname = 'refuse_change') then 'select, insert'
        else 'select, insert, update, delete' end, relation, granted.role);
    end loop;
    for function in
      -- Those that change something are volatile.
      select oid from pg_proc where oid = any (functions)
        and (provolatile <> 'v' or granted.may = 'relay' and proname not like '%\_grants\_%')
    loop
      execute format('grant execute on function %s to %I', function, granted.role);
    end loop;
    continue when granted.may = 'read';
    execute format('grant usage on sequence awaiting_number_seq to %I', granted.role);
  end loop;
end
$$;

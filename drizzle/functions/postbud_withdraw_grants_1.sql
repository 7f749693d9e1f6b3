-- Takes all rights on the bus's tables and functions from a role, and gives it back those that `role_grants` still lists.
create or replace function postbud_withdraw_grants_1(from_role text, tables text[]) returns void language plpgsql as $$
declare
  function regprocedure;
  relation text;
begin
  if exists (select from pg_roles where rolname = from_role) then
    foreach relation in array tables loop
      execute format('revoke all on public.%I from %I', relation, from_role);
    end loop;
    execute format('revoke all on sequence awaiting_number_seq from %I', from_role);
    for function in
      select oid from pg_proc where pronamespace = 'public'::regnamespace and proname like 'postbud\_%'
    loop
      execute format('revoke execute on function %s from %I', function, from_role);
    end loop;
  end if;
  perform postbud_apply_grants_1(tables);
end
$$;

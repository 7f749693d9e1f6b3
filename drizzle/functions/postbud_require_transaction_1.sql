-- Refuses a statement that should have been part of a transaction and was alone: PB007, and nothing of it is stored.
--
-- Such a statement notes its time as `postbud.first_write` if nothing was written before it (`MAYBE_FIRST_WRITE`,
-- lib/platform/db/callers-transaction.ts). The constraint `in_transaction` runs this at the commit. There the time is still
-- the same if the statement was alone; a `commit` is a later statement, and is known by its text where a clock that counts
-- milliseconds gives both the same time. The trigger before it defers the constraint, in case the
-- transaction has set all constraints immediate. Other statements do not note their time: `select postbud_emit(…)` may be alone.
create or replace function postbud_require_transaction_1() returns trigger language plpgsql as $$
begin
  if tg_when = 'BEFORE' then
    set constraints public.in_transaction deferred;
    return coalesce(new, old);
  end if;
  if pg_catalog.current_setting('postbud.first_write', true)
    operator(pg_catalog.=) pg_catalog.statement_timestamp()::pg_catalog.text
    and coalesce(pg_catalog.current_query(), '') operator(pg_catalog.!~*) '^\s*(commit|end|prepare)\M'
  then
    raise exception using errcode = 'PB007', message = 'PB007: this is not in a transaction',
      hint = 'begin a transaction first, so that this is rolled back with what it reports';
  end if;
  return null;
end
$$;

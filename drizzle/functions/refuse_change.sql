-- What happened stays on record: the audit trail, the replays and the log of what operators did are added to, and
-- nothing else. TRUNCATE fires no trigger of rows.
create or replace function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only: write a new row instead', tg_table_name using errcode = 'restrict_violation';
end
$$;

-- Locks lanes, in the order of their ids, until the transaction ends. Those of others are waited for.
create or replace function postbud_lock_lanes_2(ids int[]) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(36965, id) from (select distinct id from unnest(ids) as id order by id) as wanted;
end
$$;

-- Locks lanes, in the order of their ids, and reads them.
--
-- Of a lane that changes with each event the index has an entry for each page of its versions, and beside an old snapshot all
-- of them stay. Its newest version has the last entry: so the entries are read from their end, here and wherever a turn finds
-- a lane. An equality would be read from the beginning, whatever order is asked for.
create or replace function postbud_lock_lanes_1(
  wanted bigint[], out ids bigint[], out addresses tid[], out rows lanes[]
) language plpgsql as $$
begin
  select array_agg(newest.id), array_agg(newest.address), array_agg(newest.lane) into ids, addresses, rows
  from (select distinct id from unnest(wanted) as wanted(id) order by id) as wanted, lateral (
    select id, ctid as address, lanes as lane from lanes
    where lanes.id >= wanted.id and lanes.id <= wanted.id order by lanes.id desc limit 1 for update
  ) as newest;
end
$$;

-- Ends the outages of subscribers that have answered in these lanes: what waits because nobody was there is due now. An answer to a
-- smoke test is none.
create or replace function postbud_end_outages_1(of_lanes int[], now_at timestamptz) returns void language plpgsql as $$
declare
  back text[];
begin
  with over as (
    delete from outages
    where subscriber in (
      select lanes.subscriber from lanes where id = any (of_lanes) and topic <> 'system.smoke_test.started'
    )
    returning subscriber
  )
  select array_agg(subscriber) into back from over;
  if back is not null then
    -- Of lanes that this turn has not locked. What another settlement changes at this moment has just been tried.
    update exceptions set next_attempt_at = now_at, due_at = now_at
    where ctid = any (array(
      select exceptions.ctid from lanes join exceptions on exceptions.lane = lanes.id
      where lanes.subscriber = any (back) and exceptions.due_at > now_at
        and exceptions.attempt_log -> -1 ->> 'kind' in ('unreachable', 'timeout', 'http_502', 'http_503', 'http_504')
      for update of exceptions skip locked
    ));
  end if;
end
$$;

-- Prepares the lanes of a backfill's subscription: they are to deliver from its front on. Where a relay still holds one of
-- them this does nothing, since it has claimed newer deliveries and hands them over first. While the row is open, claims
-- give nothing behind the front, so relays let go by themselves.
-- @returns whether the lanes are prepared, now or before.
create or replace function postbud_begin_backfill_1(backfill uuid, at timestamptz) returns boolean language plpgsql as $$
declare
  asked record;
begin
  select * into asked from backfills where id = backfill and ended_at is null for update;
  if not found or asked.begun_at is not null then
    return found;
  end if;
  perform from lanes where topic = asked.topic and subscriber = asked.subscriber order by id for update;
  -- A relay that died lets go here too. It is unknown what it had begun, so what follows is claimed one by one.
  update lanes set lease_token = null, leased_until = null, due_at = at, careful_to = greatest(careful_to, tail)
  where topic = asked.topic and subscriber = asked.subscriber and lease_token is not null and coalesce(due_at, leased_until) <= at;
  if exists (
    select from lanes where topic = asked.topic and subscriber = asked.subscriber and lease_token is not null
  ) then
    return false;
  end if;
  update lanes set head = least(head, asked.front), tail = greatest(tail, asked.until)
  where topic = asked.topic and subscriber = asked.subscriber;
  update backfills set begun_at = at where id = backfill;
  return true;
end
$$;

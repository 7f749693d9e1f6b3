-- The next deliveries of a lane, in order, up to its front where there is one. Where the relay that held it died, those that
-- were put before others under its lease are left out, a hundred at most: it may have begun the others.
create or replace function postbud_next_batch_1(
  lane lanes, asked int, most_bytes int, is_bounded boolean,
  out positions bigint[], out event_ids uuid[],
  -- Those with an earlier attempt, replay or wait, and those of a backfill; of one that an operator probes, when its next
  -- attempt is due if this one fails, which then costs nothing.
  out begun json,
  -- Null where some are left out.
  out is_whole boolean,
  out front bigint
) language plpgsql as $$
begin
  if is_bounded then
    front := postbud_front_1(lane.topic, lane.subscriber, coalesce(lane.home_id, lane.id), nullif(lane.held_key, ''));
  end if;
  select coalesce(array_agg(next.position order by next.position) filter (where is_given), '{}'),
    coalesce(array_agg(next.event_id order by next.position) filter (where is_given), '{}'),
    json_agg(json_build_array(next.position, attempts, replays, extract(epoch from next_attempt_at) * 1000, backfilled,
      case when next_attempt_at is not null then (
        select extract(epoch from (attempt_log -> -1 ->> 'keeps')::timestamptz) * 1000 from deliveries
        where deliveries.lane_id = coalesce(lane.home_id, lane.id) and deliveries.position = next.position
          and attempt_log -> -1 ->> 'outcome' = 'probed'
      ) end))
      filter (where is_given and (attempts > 0 or replays > 0 or next_attempt_at is not null or backfilled)),
    case when not coalesce(bool_or(is_ahead), false) then count(*) < asked and coalesce(bool_and(is_given), true) end
  into positions, event_ids, begun, is_whole
  from (
    select *, not is_ahead and sum(payload_bytes) over in_order - payload_bytes < most_bytes as is_given,
      count(*) filter (where not is_ahead) over in_order as number
    from postbud_next_2(lane.id, lane.home_id, lane.slot, lane.held_key, lane.head,
        case when lane.lease_token is null then asked else asked + 100 end) as next,
      lateral (
        select case when lane.lease_token is null then false else exists (
          select from deliveries
          where deliveries.lane_id = coalesce(lane.home_id, lane.id) and deliveries.position = next.position
            and attempt_log -> -1 ->> 'heldBy' = lane.lease_token::text
        ) end as is_ahead
        -- Asked for each by itself: else the planner may read the whole lane, and Postgres 15 and 16 fail to count these.
        offset 0
      ) as put
    where front is null or next.position <= front
    window in_order as (order by next.position)
  ) as next
  where number <= asked;
end
$$;

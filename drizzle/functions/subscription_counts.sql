-- What each subscription has to deliver, and has delivered: the numbers that every page shows. Deliveries of events that wait for
-- their places are not among them; dismissed dead letters are delivered to nobody and counted nowhere. The totals never decrease:
-- they are what the cron has read in the journal, and what is newer than that.
create or replace view subscription_counts as
  select topic, subscriber, sum(beyond + open.pending)::bigint as pending, sum(open.failing)::bigint as failing,
    sum(open.halted)::bigint as halted, sum(dead.letters)::bigint as dead_lettered,
    sum(coalesce(known.delivered, 0) + recent.delivered)::bigint as delivered_total,
    sum(coalesce(known.failed, 0) + recent.failed)::bigint as failed_total,
    sum(coalesce(known.dead_lettered, 0) + recent.dead_lettered)::bigint as dead_lettered_total,
    max(greatest(known.last_delivered_at, recent.last_delivered_at)) as last_delivered_at,
    max(greatest(known.last_failed_at, recent.last_failed_at)) as last_failed_at
  from lane_heads as lane
    left join lane_totals as known on known.lane = lane.id, lateral (
      select postbud_beyond_head_1(lane.stream, lane.subscriber, lane.head, lane.tail) as beyond
    ) as log_part, lateral (
      select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing,
        count(*) filter (where state = 'dead_lettered') as halted
      from exceptions where exceptions.lane = lane.id and is_open
    ) as open, lateral (
      select count(*) as letters from exceptions where exceptions.lane = lane.id and dead_lettered_at is not null
    ) as dead, lateral (
      select coalesce(sum(delivered), 0) as delivered, coalesce(sum(failed), 0) as failed,
        coalesce(sum(dead_lettered), 0) as dead_lettered,
        max(at) filter (where delivered > 0) as last_delivered_at, max(at) filter (where failed > 0) as last_failed_at
      from journal
      where journal.lane = lane.id and (journal.head, journal.number) > (coalesce(known.head, -1), coalesce(known.number, -1))
    ) as recent
  group by topic, subscriber;

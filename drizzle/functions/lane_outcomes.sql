-- What became of each lane's attempts: what the cron has read in its journal, and what is newer than that. The totals never decrease.
create or replace view lane_outcomes as
  select lanes.id as lane, lanes.topic, lanes.subscriber, coalesce(known.delivered, 0) + recent.delivered as delivered,
    coalesce(known.failed, 0) + recent.failed as failed, coalesce(known.dead_lettered, 0) + recent.dead_lettered as dead_lettered,
    greatest(known.last_delivered_at, recent.last_delivered_at) as last_delivered_at,
    greatest(known.last_failed_at, recent.last_failed_at) as last_failed_at
  from lanes
    left join lane_totals as known on known.lane = lanes.id
    cross join lateral (
      select coalesce(sum(delivered), 0) as delivered, coalesce(sum(failed), 0) as failed,
        coalesce(sum(dead_lettered), 0) as dead_lettered,
        max(at) filter (where delivered > 0) as last_delivered_at, max(at) filter (where failed > 0) as last_failed_at
      from journal
      where journal.lane = lanes.id
        and (journal.head, journal.number) > (coalesce(known.head, -1), coalesce(known.number, -1))
    ) as recent;

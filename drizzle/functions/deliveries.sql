-- One record for each event and subscriber. What has a story is its row of `exceptions`; of all others the record is their place and
-- their lane's head, and the journal says when they were delivered.
create or replace view deliveries as
  select lane.id as lane, log.position, log.event_id, lane.topic, lane.subscriber, log.ordering_key,
    coalesce(exception.state, case when log.position <= newest.head then 'delivered' else 'pending' end::delivery_state) as state,
    coalesce(exception.attempts, (log.position <= newest.head)::int::smallint) as attempts,
    coalesce(exception.attempted_at, pass.ended_at - pass.took * interval '1 millisecond') as attempted_at,
    coalesce(exception.duration_ms, pass.took) as duration_ms,
    exception.next_attempt_at, coalesce(exception.delivered_at, pass.ended_at) as delivered_at, exception.dead_lettered_at,
    exception.dismissed_at, exception.replayed_at, coalesce(exception.replays, 0::smallint) as replays,
    coalesce(exception.backfilled, false) as backfilled, exception.error_group, exception.attempt_log,
    coalesce(exception.is_open, log.position > newest.head) as is_open
  from lanes as lane
    join lateral (
      select head from journal where journal.lane = lane.id order by journal.head desc, number desc limit 1
    ) as newest on true
    join log on log.stream = lane.stream and log.event_id is not null
    left join exceptions as exception on exception.lane = lane.id and exception.position = log.position
    left join lateral (
      select took_ms[log.position - first + 1] as took,
        at - ago_ms[log.position - first + 1] * interval '1 millisecond' as ended_at
      from journal
      where exception.lane is null and log.position <= newest.head and journal.lane = lane.id
        and journal.head >= log.position and first <= log.position
      order by journal.head, number limit 1
    ) as pass on true
  where exception.lane is not null or lane.subscriber = any ((
    select subscribers from audiences
    where audiences.stream = log.stream and audiences.position <= log.position order by audiences.position desc limit 1
  )::text[]);

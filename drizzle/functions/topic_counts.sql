-- How many events of each topic are in each state that still needs something: an event is in the worst state of its deliveries.
-- Those that wait for their places are not among them.
create or replace view topic_counts as
  with reached as (
    -- Ranges of places with the same audience, and up to where all of it has come.
    select lane.topic, lane.stream, audience.position as from_position, least(audience.until_position, max(lane.tail) + 1) as until_position,
      min(lane.head) as head
    from lane_heads as lane join (
      select stream, position, subscribers,
        lead(position, 1, 9223372036854775807) over (partition by stream order by position) as until_position
      from audiences
    ) as audience on audience.stream = lane.stream and lane.subscriber = any (audience.subscribers)
    where lane.topic <> 'system.smoke_test.started'
    group by lane.topic, lane.stream, audience.position, audience.until_position
  ),
  exceptional as (
    select lanes.topic, lanes.stream, position, bool_or(dead_lettered_at is not null) as is_dead, bool_or(state = 'failing') as is_failing
    from exceptions join lanes on lanes.id = lane
    where (is_open or dead_lettered_at is not null) and lanes.topic <> 'system.smoke_test.started'
    group by lanes.topic, lanes.stream, position
  )
  select topic, sum(pending)::bigint as pending, sum(failing)::bigint as failing, sum(dead_lettered)::bigint as dead_lettered
  from (
    select topic, greatest(0, until_position - greatest(from_position, head + 1)) as pending, 0 as failing, 0 as dead_lettered from reached
    union all
    select exceptional.topic, case
        when is_dead or is_failing then -coalesce(position > head, false)::int else coalesce(position <= head, true)::int
      end, (is_failing and not is_dead)::int, is_dead::int
    from exceptional
      left join reached on reached.stream = exceptional.stream and position >= from_position and position < until_position
  ) as part
  group by topic;

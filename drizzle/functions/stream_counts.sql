-- How many events of each stream of a topic are in each state that still needs something: an event is in the worst state of its
-- deliveries. Those that wait for their places are not among them. Of some streams alone it costs a part.
create or replace view stream_counts as
  with reached as (
    -- Ranges of places with the same audience, and up to where all of it has come.
    select lane.stream, audience.position as from_position, least(audience.until_position, max(lane.tail) + 1) as until_position,
      min(lane.head) as head
    from lane_heads as lane join (
      select stream, position, subscribers,
        lead(position, 1, 9223372036854775807) over (partition by stream order by position) as until_position
      from audiences
    ) as audience on audience.stream = lane.stream and lane.subscriber = any (audience.subscribers)
    where lane.topic <> 'system.smoke_test.started'
    group by lane.stream, audience.position, audience.until_position
  ),
  -- Lanes with exceptions that count, and whether another one of the stream has such, too. One of which a thousand rows say nothing is
  -- taken for one.
  troubled as (
    select id as lane, stream, count(*) over (partition by stream) > 1 as is_shared
    from lanes
    where topic <> 'system.smoke_test.started' and (
      exists (select from exceptions where exceptions.lane = lanes.id and is_open) or exists (
        select from (
          select dead_lettered_at, row_number() over () as number from exceptions where exceptions.lane = lanes.id limit 1000
        ) as first where dead_lettered_at is not null or number = 1000
      )
    )
  ),
  -- The places of events with exceptions, which count once, and those of them that fail and that are dead. Where several lanes have
  -- exceptions each place is a group, in the worst state of its deliveries; elsewhere their numbers are summed. Each part reads an
  -- index alone, and no row of the table.
  exceptional as (
    select stream, is_beyond, least(most, places) as places, least(most - least(most, dead), failing) as failing, least(most, dead) as dead
    from (
      select troubled.stream, coalesce(position > head, false) as is_beyond, case when is_shared then position end as place,
        sum(places) as places, sum(failing) as failing, sum(dead) as dead
      from (
        select lane, position, 1 as places, 0 as failing, 0 as dead from exceptions where is_open
        union all
        select lane, position, 0, 1, 0 from exceptions where is_open and state = 'failing'
        union all
        -- It is among the dead, too.
        select lane, position, -1, 0, 0 from exceptions where is_open and state = 'dead_lettered'
        union all
        select lane, position, 1, 0, 1 from exceptions where dead_lettered_at is not null
      ) as part join troubled using (lane)
        left join reached on reached.stream = troubled.stream and position >= from_position and position < until_position
      group by 1, 2, 3
    ) as at_place, lateral (select case when place is not null then 1 end as most) as bound
  )
  select topic, stream, pending, failing, dead_lettered
  from (
    select stream, sum(pending)::bigint as pending, sum(failing)::bigint as failing, sum(dead_lettered)::bigint as dead_lettered
    from (
      select stream, greatest(0, until_position - greatest(from_position, head + 1)) as pending, 0 as failing, 0 as dead_lettered from reached
      union all
      -- Those beyond the head are in the range.
      select stream, case when is_beyond then 0 else places end - failing - dead, failing, dead from exceptional
    ) as part
    group by stream
  ) as of_stream join streams on streams.id = stream;

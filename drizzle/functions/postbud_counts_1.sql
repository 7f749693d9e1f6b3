-- What each subscription of a topic has to deliver, with its last outcomes, and, in the row whose subscriber is empty, how many of
-- the topic's events are in each state that still needs something: an event is in the worst state of its deliveries. An empty topic
-- gives the subscriptions of all topics, and no events; null gives everything.
create or replace function postbud_counts_1(of_topic text)
returns table (topic text, subscriber text, pending bigint, failing bigint, halted bigint, dead_lettered bigint,
  last_delivered_at timestamptz, last_failed_at timestamptz)
language sql stable as $$
  with lane as materialized (
    select * from states_of_lanes where coalesce(of_topic, '') = '' or states_of_lanes.topic = of_topic
  ),
  reached as materialized (
    -- Ranges of places with the same audience, and up to where all of it has come.
    select lane.stream, audience.position as from_position, least(audience.until_position, max(lane.tail) + 1) as until_position,
      min(lane.head) as head
    from lane join (
      select stream, position, subscribers,
        lead(position, 1, 9223372036854775807) over (partition by stream order by position) as until_position
      from audiences
    ) as audience on audience.stream = lane.stream and lane.subscriber = any (audience.subscribers)
    where of_topic is distinct from ''
    group by lane.stream, audience.position, audience.until_position
  ),
  -- Lanes with exceptions that count. Their numbers are those of events, unless another lane of the stream has such exceptions, too,
  -- or has not come as far: then each place is looked at.
  troubled as materialized (
    select stream, lane, exceptional, lane.failing, lane.dead_lettered, is_shared, is_shared or head > slowest as is_mixed
    from (
      select *, count(*) filter (where exceptional > 0) over (partition by stream) > 1 as is_shared,
        min(head) over (partition by stream) as slowest
      from lane
    ) as lane where exceptional > 0 and of_topic is distinct from ''
  ),
  -- What fails and what is dead is counted in columns of its own. Each part reads an index alone, and no row of the table.
  part as (
    select stream, case when is_shared then position end as place, position, 1 as places, 0 as failing, 0 as dead
    from troubled join exceptions using (lane) where is_mixed and is_open
    union all
    select stream, case when is_shared then position end, position, 0, 1, 0
    from troubled join exceptions using (lane) where is_mixed and is_open and state = 'failing'
    union all
    -- It is among the dead, too.
    select stream, case when is_shared then position end, position, -1, 0, 0
    from troubled join exceptions using (lane) where is_mixed and is_open and state = 'dead_lettered'
    union all
    select stream, case when is_shared then position end, position, 1, 0, 1
    from troubled join exceptions using (lane) where is_mixed and dead_lettered_at is not null
      and exists (select from troubled where is_mixed and troubled.dead_lettered > 0)
  ),
  -- Where several lanes have such exceptions each place is a group, in the worst state of its deliveries; elsewhere numbers are summed.
  exceptional as (
    select stream, is_beyond, least(most, places) as places, least(most - least(most, dead), failing) as failing, least(most, dead) as dead
    from (
      select part.stream, coalesce(position > head, false) as is_beyond, place, sum(places) as places, sum(part.failing) as failing, sum(dead) as dead
      from part left join reached on reached.stream = part.stream and position >= from_position and position < until_position
      group by part.stream, is_beyond, place
    ) as at_place, lateral (select case when place is not null then 1 end as most) as bound
    union all
    select stream, false, exceptional, troubled.failing, troubled.dead_lettered from troubled where not is_mixed
  )
  select lane.topic, lane.subscriber, sum(lane.pending)::bigint, sum(lane.failing)::bigint, sum(lane.halted)::bigint,
    sum(lane.dead_lettered)::bigint, max(outcomes.last_delivered_at), max(outcomes.last_failed_at)
  from lane join lane_outcomes as outcomes using (lane)
  group by lane.topic, lane.subscriber
  union all
  select streams.topic, '', sum(event.pending)::bigint, sum(event.failing)::bigint, 0, sum(dead)::bigint, null, null
  from (
    select stream, greatest(0, until_position - greatest(from_position, head + 1)) as pending, 0 as failing, 0 as dead from reached
    union all
    -- Those beyond the head are in the range.
    select stream, case when is_beyond then 0 else places end - exceptional.failing - dead, exceptional.failing, dead from exceptional
  ) as event join streams on streams.id = stream
  group by streams.topic
$$;

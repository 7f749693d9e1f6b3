-- Leases lanes, and reads what is next in each: first the open exceptions that are due, each with those behind it of its key, then
-- the log beyond the head. In a stream without keys an open exception holds back the log; in one with keys its key, whose later
-- events the relay parks. The lanes are locked.
--
-- `except_for`: those of limited subscribers. `continued`: lanes that this relay holds and goes on with, under the token that they have. `probes`: lanes of subscribers
-- that do not answer, of which one delivery is to find out. Where the relay that held a lane died, only the first that it may have
-- begun is given, to be charged; what it may have had besides is handed over one at a time. A claim ends before the first payload
-- that its handler cannot read, unless it is only to be charged.
--
-- To start a statement costs more than to run it for one event. So most calls run two: which lanes are due, and what is next in them.
-- Rows are looked up one by one, whatever the statistics say of their number: they may have been taken before a burst was committed.
create or replace function postbud_claim_2(
  candidates int[], except_for int[], continued int[], probes int[],
  token uuid, names text[], versions int[], leases_ms int[], waits boolean[],
  -- Over all lanes; and, of each, how many keys with exceptions.
  max_deliveries int, max_keys int, now_at timestamptz,
  out claimed json, out claimed_lanes int[]
) language plpgsql as $$
#variable_conflict use_column
declare
  -- One payload at least for each lane: a claim of nothing but webhooks of the largest size would otherwise be more than a string
  -- can hold.
  most_bytes constant int := 16 * 1024 * 1024 / greatest(1, cardinality(candidates));
  -- Durations of so many fit into a settlement's row, compressed.
  most constant int := least(2000, greatest(1, max_deliveries / greatest(1, cardinality(candidates))));
  due lane_heads[];
  has_exceptions boolean;
  exceptional json;
begin
  select array_agg(lane), bool_or((select true from exceptions where exceptions.lane = lane.id and is_open limit 1))
  into due, has_exceptions
  from postbud_due_lanes_1(now_at, continued) as lane
  where id = any (candidates) and (except_for is null or id <> all (except_for)) and topic || ' ' || subscriber = any (names)
    and (id = any (probes) or not waits[array_position(names, topic || ' ' || subscriber)] or not exists (
      select from outages where outages.subscriber = lane.subscriber
    ));
  if due is null then
    return;
  end if;
  if has_exceptions then
    -- What a dead relay had in hand may go on. The first is charged, unless this relay does not come to it.
    update exceptions set is_held = false, due_at = coalesce(next_attempt_at, now_at)
    where is_open and is_held and lane = any (array(
        select id from unnest(due) where leased_until is not null and coalesce(id <> all (continued), true)
      ));
    with free as materialized (
      select lane.*, leased_until is not null and coalesce(id <> all (continued), true) as is_lapsed,
        case when id = any (probes) or careful_to is not null then 1 else most end as asked,
        versions[array_position(names, topic || ' ' || subscriber)] as version
      from unnest(due) as lane
    ),
    found as materialized (
      select free.id, next.*, bool_or(place.version > free.version) over (
          partition by free.id, next.ordering_key order by next.position
        ) as is_newer
      from free cross join lateral (
          select behind.* from (
            select ordering_key from exceptions as looked_for, lateral (
                select first.position, first.next_attempt_at, first.is_held, first.state from exceptions as first
                where first.lane = free.id and first.ordering_key = looked_for.ordering_key and first.is_open
                order by first.lane, first.ordering_key, first.position limit 1
              ) as first
            -- Each key once: what was the first before a replay put an earlier one back still says when it is due.
            where not free.is_lapsed and looked_for.lane = free.id and looked_for.due_at <= now_at and looked_for.position = first.position
              and coalesce(first.next_attempt_at <= now_at, true) and not first.is_held and first.state in ('pending', 'failing')
            order by looked_for.due_at limit max_keys
          ) as key, lateral (
            select * from exceptions as open
            where open.lane = free.id and open.ordering_key = key.ordering_key and open.is_open
            order by open.lane, open.ordering_key, open.position
            limit case when free.slot = 0 then free.asked else greatest(16, free.asked / max_keys) end
          ) as behind
          order by behind.position limit free.asked
        ) as next, lateral (
          select version from log where log.stream = free.stream and log.position = next.position limit 1
        ) as place
      union all
      select free.id, begun.*, false from free, lateral (
          select * from exceptions
          where lane = free.id and position = free.first_claimed and is_open and state in ('pending', 'failing') limit 1
        ) as begun
      where free.is_lapsed
    )
    select json_agg(one) into exceptional
    from (
      select id as lane, array_agg(position order by position) as positions, array_agg(event_id order by position) as event_ids,
        json_agg(json_build_object('position', position, 'attempts', attempts, 'replays', replays,
          'nextAttemptAtMs', extract(epoch from next_attempt_at) * 1000, 'backfilled', backfilled,
          'isHalted', state = 'dead_lettered', 'keptAttemptAtMs', case when attempt_log -> -1 ->> 'outcome' = 'probed'
            then extract(epoch from (attempt_log -> -1 ->> 'keeps')::timestamptz) * 1000 end
        ) order by position) as rows
      from found where not is_newer group by id
    ) as one;
  end if;
  with free as materialized (
    select lane.*, turn, is_continued, is_lapsed, rows, due_positions, due_event_ids, case
        when is_lapsed and due_positions is not null
          -- In a stream without keys whatever is open holds back the log, unless it comes first.
          or slot = 0 and not is_lapsed and has_exceptions and (
            select true from exceptions where exceptions.lane = lane.id and is_open and position <> all (coalesce(due_positions, '{}')) limit 1
          )
          or exists (
            select from backfills
            where backfills.topic = lane.topic and backfills.subscriber = lane.subscriber and ended_at is null
          ) then 0
        when is_lapsed or id = any (probes) or careful_to is not null then case when due_positions is null then 1 else 0 end
        else most - coalesce(cardinality(due_positions), 0)
      end as room
    from unnest(due) as lane left join json_to_recordset(exceptional)
        as found(lane int, rows json, positions bigint[], event_ids uuid[]) on found.lane = id, lateral (
        select array_position(names, topic || ' ' || subscriber) as turn, coalesce(id = any (continued), false) as is_continued,
          leased_until is not null and coalesce(id <> all (continued), true) as is_lapsed,
          found.positions as due_positions, found.event_ids as due_event_ids
      ) as asked
  ),
  taken as materialized (
    select free.*, batch.*
    from free, lateral (
        select array_agg(position order by position) as positions, array_agg(event_id order by position) as event_ids,
          array_agg(distinct ordering_key) as keys, max(position) as last
        from (
          select *, sum(bytes) over in_order - bytes as bytes_before, bool_or(version > versions[turn]) over in_order as is_newer,
            -- A settlement lists the places that it passes, those of events for others too.
            position - first_value(position) over in_order - row_number() over in_order >= 1000 as is_far
          from (
            select next.* from (
              select subscribers, position as from_position,
                coalesce(lead(position) over (order by position), 9223372036854775807) as until_position
              from audiences
              where stream = free.stream and position >= coalesce((
                select position from audiences where stream = free.stream and position <= free.head + 1
                order by position desc limit 1
              ), 0)
            ) as audience, lateral (
              select * from log
              where log.stream = free.stream and log.position >= audience.from_position and log.position < audience.until_position
                and log.position >= case when free.is_lapsed then free.first_claimed else free.head + 1 end
              order by log.position limit room
            ) as next
            where free.subscriber = any (audience.subscribers)
            order by next.position
            limit room
          ) as next
          window in_order as (order by position)
        ) as readable
        where (not is_newer and not is_far or free.is_lapsed) and bytes_before < most_bytes
          and (not free.is_lapsed or position = free.first_claimed)
      ) as batch
    where due_positions is not null or batch.positions is not null or is_lapsed
  ),
  lease as (
    insert into journal (lane, number, head, at, token, leased_until, first_claimed, claimed_to, careful_to, handlers)
    select id, number + 1, head, now_at, case when is_continued then taken.token else postbud_claim_2.token end, greatest(
        case when is_continued then leased_until end, now_at + leases_ms[turn] * interval '1 millisecond'),
      least(case when is_continued then first_claimed end, due_positions[1], positions[1]),
      greatest(case when is_continued or is_lapsed then claimed_to end, due_positions[cardinality(due_positions)], last),
      -- It is through with what the dead relay had.
      case when is_lapsed or careful_to >= least(due_positions[1], positions[1]) then careful_to end,
      case when slot > 0 then max_keys else 1 end
    from taken
  )
  select array_agg(id), json_build_object('lanes', json_agg(json_build_object('lane', id, 'number', number + 1, 'stream', stream,
      'topic', topic, 'subscriber', subscriber, 'isKeyed', slot > 0, 'handlers', max_keys, 'head', head, 'rows', rows,
      'positions', positions, 'openKeys', case when slot > 0 and has_exceptions then (
          select array_agg(key) from unnest(keys) as key
          where (
            select true from exceptions as open
            where open.lane = id and open.ordering_key = key and open.is_open
              and open.position <> all (coalesce(due_positions, '{}')) limit 1
          )
        ) end, 'isContinued', is_continued, 'token', case when is_continued then taken.token end,
      'lapsedAtMs', case when is_lapsed then extract(epoch from leased_until) * 1000 end, 'claimedTo', claimed_to)), 'events', (
    select json_agg(json_build_array(stream, position, id, topic, payload, version, producer, date_part('epoch', created_at) * 1000,
      seq, ordering_key, correlation_id, causation_id, traceparent, erased_at is not null))
    -- Each once, however many lanes carry it.
    from (
      select distinct on (stream, position) stream, position, event_id
      from taken, unnest(due_positions || positions, due_event_ids || event_ids) as found(position, event_id)
      order by stream, position
    ) as found, lateral (select * from events where events.id = event_id limit 1) as event
  )) into claimed_lanes, claimed from taken having count(*) > 0;
end
$$;

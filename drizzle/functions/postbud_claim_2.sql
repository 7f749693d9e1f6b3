-- Leases lanes, and reads what is next in each: first the open exceptions that are due, each with those behind it of its key, then
-- the log beyond the head. In a stream without keys an open exception holds back the log; in one with keys its key, whose later
-- events the relay parks. The lanes are locked.
--
-- `except_for`: those of limited subscribers. `continued`: lanes that this relay holds and goes on with. `probes`: lanes of subscribers that do not answer, of which one
-- delivery is to find out. Where the relay that held a lane died, only the first that it may have begun is given, to be charged;
-- what it may have had besides is handed over one at a time. A claim ends before the first payload that its handler cannot read,
-- unless it is only to be charged.
create or replace function postbud_claim_2(
  candidates int[], except_for int[], continued int[], probes int[],
  token uuid, names text[], versions int[], leases_ms int[], waits boolean[],
  -- Over all lanes; and, of each, how many keys with exceptions.
  max_deliveries int, max_keys int, now_at timestamptz
) returns json language plpgsql as $$
#variable_conflict use_column
declare
  -- One payload at least for each lane: a claim of nothing but webhooks of the largest size would otherwise be more than a string
  -- can hold.
  most_bytes constant int := 16 * 1024 * 1024 / greatest(1, cardinality(candidates));
  -- Durations of so many fit into a settlement's row, compressed.
  most constant int := least(2000, greatest(1, max_deliveries / greatest(1, cardinality(candidates))));
  claimed json;
begin
  with free as materialized (
    select lanes.id, lanes.stream, lanes.slot, lanes.topic, lanes.subscriber, turn, newest.number, newest.head,
      newest.claimed_to, newest.first_claimed, newest.careful_to, newest.leased_until,
      coalesce(lanes.id = any (continued), false) as is_continued,
      newest.leased_until is not null and not coalesce(lanes.id = any (continued), false) as is_lapsed,
      case when lanes.id = any (probes) or newest.careful_to is not null then 1 else most end as asked
    from unnest(candidates) as candidate(id) join lanes using (id), lateral (
        select array_position(names, lanes.topic || ' ' || lanes.subscriber) as turn
      ) as asked, lateral (
        select number, head, leased_until, claimed_to, first_claimed, careful_to from journal
        where lane = lanes.id order by head desc, number desc limit 1
      ) as newest
    where turn is not null and (except_for is null or lanes.id <> all (except_for))
      and (newest.leased_until is null or newest.leased_until <= now_at or lanes.id = any (continued))
      and not exists (
        select from pauses where pauses.subscriber = lanes.subscriber and pauses.topic in ('', lanes.topic)
      )
      and (lanes.id = any (probes) or not waits[turn] or not exists (
        select from outages where outages.subscriber = lanes.subscriber
      ))
  ),
  rescued as (
    -- What a dead relay had in hand may go on. The first is charged, unless this relay does not come to it.
    update exceptions set is_held = false, due_at = coalesce(exceptions.next_attempt_at, now_at)
    from free
    where free.is_lapsed and exceptions.lane = free.id and exceptions.is_open and exceptions.is_held
  ),
  due as materialized (
    select free.id, next.position, next.event_id, next.attempts, next.replays, next.next_attempt_at, next.backfilled,
      next.state, next.attempt_log -> -1 as entry,
      bool_or(log.version > versions[turn]) over (partition by free.id, next.ordering_key order by next.position) as is_newer
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
          order by open.lane, open.ordering_key, open.position limit case when free.slot = 0 then free.asked else greatest(16, free.asked / max_keys) end
        ) as behind
        order by behind.position limit free.asked
      ) as next join log on log.stream = free.stream and log.position = next.position
    union all
    select free.id, begun.position, begun.event_id, begun.attempts, begun.replays, begun.next_attempt_at, begun.backfilled, begun.state,
      begun.attempt_log -> -1, false
    from free join exceptions as begun on begun.lane = free.id and begun.position = free.first_claimed
    where free.is_lapsed and begun.is_open and begun.state in ('pending', 'failing')
  ),
  exceptional as materialized (
    select id, array_agg(position order by position) as positions, array_agg(event_id order by position) as event_ids,
      json_agg(json_build_object('position', position, 'attempts', attempts, 'replays', replays,
        'nextAttemptAtMs', extract(epoch from next_attempt_at) * 1000, 'backfilled', backfilled,
        'isHalted', state = 'dead_lettered',
        'keptAttemptAtMs', case when entry ->> 'outcome' = 'probed' then extract(epoch from (entry ->> 'keeps')::timestamptz) * 1000 end
      ) order by position) as rows
    from due where not is_newer group by id
  ),
  batch as materialized (
    select free.id, read.*
    from free left join exceptional using (id), lateral (
        select asked - coalesce(cardinality(exceptional.positions), 0) as room
      ) as left_over, lateral (
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
              order by log.position
              limit case when free.is_lapsed then 1 else room end
            ) as next
            where free.subscriber = any (audience.subscribers)
            order by next.position
            limit room
          ) as next
          window in_order as (order by position)
        ) as readable
        where (not is_newer and not is_far or free.is_lapsed) and bytes_before < most_bytes
          and (not free.is_lapsed or position = free.first_claimed)
      ) as read
    where exceptional.id is null or not free.is_lapsed and free.careful_to is null and not coalesce(free.id = any (probes), false)
  ),
  opened as materialized (
    -- In a stream without keys whatever is open holds back the log, unless it comes first.
    select batch.id from batch join free using (id) left join exceptional using (id)
    where slot = 0 and not is_lapsed and exists (
        select from exceptions where lane = batch.id and is_open and position <> all (coalesce(exceptional.positions, '{}')) limit 1
      )
      or exists (select from backfills where backfills.topic = free.topic and backfills.subscriber = free.subscriber and ended_at is null)
  ),
  taken as materialized (
    select free.*, rows, exceptional.positions as due_positions, exceptional.event_ids as due_event_ids,
      batch.positions, batch.event_ids, batch.last, (
        select array_agg(key) from unnest(batch.keys) as key
        where slot > 0 and exists (
          select from exceptions as open
          where open.lane = free.id and open.ordering_key = key and open.is_open
            and open.position <> all (coalesce(exceptional.positions, '{}')) limit 1
        )
      ) as open_keys
    from free left join exceptional using (id)
      left join batch on batch.id = free.id and not exists (select from opened where opened.id = free.id)
    where exceptional.id is not null or batch.positions is not null or is_lapsed
  ),
  lease as (
    insert into journal (lane, number, head, at, token, leased_until, first_claimed, claimed_to, careful_to, handlers)
    select id, number + 1, head, now_at, postbud_claim_2.token, greatest(
        case when is_continued then leased_until end, now_at + leases_ms[turn] * interval '1 millisecond'),
      least(case when is_continued then first_claimed end, due_positions[1], positions[1]),
      greatest(case when is_continued or is_lapsed then claimed_to end, due_positions[cardinality(due_positions)], last),
      -- It is through with what the dead relay had.
      case when is_lapsed or careful_to >= least(due_positions[1], positions[1]) then careful_to end,
      case when slot > 0 then max_keys else 1 end
    from taken
    returning lane, number
  )
  select json_build_object('lanes', (
    select json_agg(json_build_object('lane', id, 'number', lease.number, 'stream', stream, 'topic', topic, 'subscriber', subscriber,
      'isKeyed', slot > 0, 'handlers', max_keys, 'head', head, 'rows', rows, 'positions', positions, 'openKeys', open_keys,
      'isContinued', is_continued,
      'lapsedAtMs', case when is_lapsed then extract(epoch from leased_until) * 1000 end, 'claimedTo', claimed_to))
    from taken join lease on lease.lane = id
  ), 'events', (
    select json_agg(json_build_array(stream, position, id, topic, payload, version, producer, date_part('epoch', created_at) * 1000,
      seq, ordering_key, correlation_id, causation_id, traceparent, erased_at is not null))
    -- Each once, however many lanes carry it.
    from (
      select distinct on (stream, position) stream, position, event_id
      from taken, unnest(due_positions || positions, due_event_ids || event_ids) as found(position, event_id)
      order by stream, position
    ) as found join events on id = event_id
  )) into claimed where exists (select from taken);
  return claimed;
end
$$;

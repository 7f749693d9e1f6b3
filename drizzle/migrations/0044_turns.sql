-- Where a relay holds a lane until. `due_at` stays null meanwhile, but for the lane of a key in trouble: it is in an index,
-- and a lane that is leased and let go for each event would leave a dead entry there each time.
alter table lanes add column leased_until timestamptz;--> statement-breakpoint
alter table lanes add column next_look_at timestamptz
  generated always as (coalesce(due_at, case when lease_token is not null then leased_until end)) stored;--> statement-breakpoint
-- Each statement that changes a row reads the checks of its table anew, some 20 microseconds for each: those that only say how
-- a row is made are dropped, and the others say no more than they must.
alter table lanes drop constraint lanes_lease, drop constraint lanes_head, drop constraint lanes_kind,
  drop constraint if exists lanes_slots_of_this_release, add constraint lanes_state
  check (head <= tail and (lease_token is null or coalesce(due_at, leased_until) is not null));--> statement-breakpoint
alter table deliveries drop constraint deliveries_state, add constraint deliveries_state check (
  (state = 'delivered') = (delivered_at is not null)
  and (state = 'dead_lettered') = (coalesce(dead_lettered_at, dismissed_at) is not null)
) not valid;--> statement-breakpoint
-- Updates of a lane stay on its page.
alter table lanes set (fillfactor = 50);--> statement-breakpoint
-- Where lanes are held until: when the time of a row is over, and one of its lanes is still held, its relay died. Rows are
-- deleted then. The lanes of keys in trouble are not among them.
create table leases (
  until timestamptz not null,
  lanes bigint[] not null
);--> statement-breakpoint
create index leases_until on leases (until);--> statement-breakpoint
-- Positions up to here may be drawn. It is written before they are, so that none is drawn twice after a crash that takes
-- back what was not on the disk. `server` is the life of the server that draws them.
create table reserved_positions (
  until bigint not null,
  server text not null
);--> statement-breakpoint
alter table awaiting_fan_out add column number bigint generated always as identity;--> statement-breakpoint
create index awaiting_fan_out_number on awaiting_fan_out (number);--> statement-breakpoint
-- From 64 on, a shard is of a few seconds: see postbud_count_2.
alter table backlog alter column shard type bigint;--> statement-breakpoint
alter table throughput alter column shard type bigint;--> statement-breakpoint
create index backlog_recent on backlog (shard) where shard >= 64;--> statement-breakpoint
create index throughput_recent on throughput (shard) where shard >= 64;
--> statement-breakpoint
-- Release 0.2 made a lane for each ordering key. These become part of the shared lanes, with all their deliveries.
with old as (
  select topic, subscriber, postbud_slot(ordering_key) as slot, min(head) as head, max(tail) as tail
  from lanes where ordering_key > '' group by 1, 2, 3
)
insert into lanes (topic, subscriber, slot, needed_version, head, tail, due_at)
select topic, subscriber, slot, 32767, head, tail, now() from old
on conflict (topic, subscriber, slot, held_key) where slot is not null do update
  set head = least(lanes.head, excluded.head), tail = greatest(lanes.tail, excluded.tail),
    due_at = case when lanes.lease_token is null then now() else lanes.due_at end;--> statement-breakpoint
update deliveries set lane_id = home.id, lane_key = old.ordering_key
from lanes as old join lanes as home on home.topic = old.topic and home.subscriber = old.subscriber
  and home.slot = postbud_slot(old.ordering_key) and home.held_key = ''
where old.ordering_key > '' and deliveries.lane_id = old.id;--> statement-breakpoint
update halts set lane_id = home.id, lane_key = old.ordering_key
from lanes as old join lanes as home on home.topic = old.topic and home.subscriber = old.subscriber
  and home.slot = postbud_slot(old.ordering_key) and home.held_key = ''
where old.ordering_key > '' and halts.lane_id = old.id;--> statement-breakpoint
delete from lanes where ordering_key > '';--> statement-breakpoint
drop trigger if exists lanes_of_keys on lanes;--> statement-breakpoint
-- Adds changes to the counters, so that how much is where is known without counting.
--
-- Each backend has rows of its own, so that nobody waits for another, and new ones every four seconds: a row that is changed
-- for hours beside an old snapshot has as many dead versions, which each change would read. postbud_tidy_1 folds them
-- into shards 0 to 63. Rows are locked in their order, backlog before throughput.
create or replace function postbud_count_2(changes postbud_change_1[], at timestamptz) returns void language plpgsql as $$
declare
  few constant int := 16;
  own_shard constant bigint := extract(epoch from clock_timestamp())::bigint / 4 * 64 + pg_backend_pid() % 64;
  change postbud_change_1;
  known postbud_change_1;
  totals postbud_change_1[] := '{}';
  is_known boolean;
  is_settled boolean := false;
begin
  -- A row can be changed once in a statement. Few are added up here, since an aggregate costs more to begin than they do.
  if cardinality(changes) > few then
    totals := array(
      select row(topic, subscriber, sum(pending), sum(failing), sum(dead_lettered), sum(delivered), sum(first_attempt),
        sum(failed), max(last_delivered_at), max(last_failed_at))::postbud_change_1
      from unnest(changes) group by topic, subscriber
    );
    is_settled := true;
  else
    foreach change in array changes loop
      is_settled := is_settled or change.delivered > 0 or change.dead_lettered > 0;
      is_known := false;
      for number in 1..cardinality(totals) loop
        known := totals[number];
        if known.topic = change.topic and known.subscriber = change.subscriber then
          is_known := true;
          totals[number] := row(known.topic, known.subscriber, known.pending + change.pending, known.failing + change.failing,
            known.dead_lettered + change.dead_lettered, known.delivered + change.delivered,
            known.first_attempt + change.first_attempt, known.failed + change.failed,
            greatest(known.last_delivered_at, change.last_delivered_at), greatest(known.last_failed_at, change.last_failed_at));
        end if;
      end loop;
      if not is_known then
        totals := totals || change;
      end if;
    end loop;
  end if;
  insert into backlog as total (topic, subscriber, shard, pending, failing, dead_lettered, last_delivered_at,
    last_failed_at, delivered_total, failed_total, dead_lettered_total)
  select topic, subscriber, own_shard, pending, failing, dead_lettered, last_delivered_at, last_failed_at, delivered, failed,
    case when subscriber <> '' then greatest(dead_lettered, 0) else 0 end
  -- No figure counts the events of smoke tests.
  from unnest(totals) where topic <> 'system.smoke_test.started' order by topic, subscriber
  on conflict (topic, subscriber, shard) do update set pending = total.pending + excluded.pending,
    failing = total.failing + excluded.failing, dead_lettered = total.dead_lettered + excluded.dead_lettered,
    last_delivered_at = greatest(total.last_delivered_at, excluded.last_delivered_at),
    last_failed_at = greatest(total.last_failed_at, excluded.last_failed_at),
    delivered_total = total.delivered_total + excluded.delivered_total,
    failed_total = total.failed_total + excluded.failed_total,
    dead_lettered_total = total.dead_lettered_total + excluded.dead_lettered_total;
  if not is_settled then
    return;
  end if;
  insert into throughput as total (hour, topic, shard, delivered, first_attempt, dead_lettered)
  select date_trunc('hour', at, 'UTC'), topic, own_shard, sum(delivered), sum(first_attempt),
    sum(greatest(dead_lettered, 0))
  from unnest(totals)
  where subscriber <> '' and (delivered > 0 or dead_lettered > 0) and topic <> 'system.smoke_test.started'
  group by topic order by topic
  on conflict (hour, topic, shard) do update set delivered = total.delivered + excluded.delivered,
    first_attempt = total.first_attempt + excluded.first_attempt,
    dead_lettered = total.dead_lettered + excluded.dead_lettered;
end
$$;--> statement-breakpoint
-- What each process does once a second, beside its turns: it makes the lanes due of relays that died, and folds counters.
-- @returns the clock, and how many lanes are due by it.
create or replace function postbud_tidy_1(
  -- Up to when this process has looked for relays that died, and folded; null for the first time.
  clock timestamptz, since timestamptz, out now_at timestamptz, out rescued int
) language plpgsql
set enable_seqscan = off as $$
declare
  seconds constant bigint := extract(epoch from clock_timestamp());
  newest_shard constant bigint := (seconds / 4 - 2) * 64;
  -- Of the last two minutes: before that there is nothing but dead rows, unless nobody has folded for so long.
  oldest_shard constant bigint := case when since is null then 64 else (seconds / 4 - 30) * 64 end;
begin
  now_at := coalesce(clock, clock_timestamp());
  with passed as (
    -- A turn takes less time than a lease lasts: what is older has been seen.
    delete from leases where until > coalesce(since - interval '1 second', '-infinity') and until <= now_at returning lanes
  ),
  lapsed as materialized (
    select lane.id from (select distinct id from passed, unnest(lanes) as id order by id) as held, lateral (
      select id, lease_token, due_at, leased_until from lanes
      where lanes.id >= held.id and lanes.id <= held.id order by lanes.id desc limit 1 for update
    ) as lane
    where lease_token is not null and due_at is null and leased_until <= now_at
  )
  update lanes set due_at = leased_until from lapsed where lanes.id = lapsed.id;
  get diagnostics rescued = row_count;
  with recent as (
    select ctid as id from backlog where shard >= 64 and shard >= oldest_shard and shard < newest_shard
    order by topic, subscriber, shard for update skip locked
  ),
  folded as (
    delete from backlog where ctid = any (array(select id from recent)) returning *
  )
  insert into backlog as total (topic, subscriber, shard, pending, failing, dead_lettered, last_delivered_at,
    last_failed_at, delivered_total, failed_total, dead_lettered_total)
  select topic, subscriber, shard % 64, sum(pending), sum(failing), sum(dead_lettered),
    max(last_delivered_at), max(last_failed_at), sum(delivered_total), sum(failed_total), sum(dead_lettered_total)
  from folded group by 1, 2, 3 order by 1, 2, 3
  on conflict (topic, subscriber, shard) do update set pending = total.pending + excluded.pending,
    failing = total.failing + excluded.failing, dead_lettered = total.dead_lettered + excluded.dead_lettered,
    last_delivered_at = greatest(total.last_delivered_at, excluded.last_delivered_at),
    last_failed_at = greatest(total.last_failed_at, excluded.last_failed_at),
    delivered_total = total.delivered_total + excluded.delivered_total,
    failed_total = total.failed_total + excluded.failed_total,
    dead_lettered_total = total.dead_lettered_total + excluded.dead_lettered_total;
  with recent as (
    select ctid as id from throughput where shard >= 64 and shard >= oldest_shard and shard < newest_shard
    order by hour, topic, shard for update skip locked
  ),
  folded as (
    delete from throughput where ctid = any (array(select id from recent)) returning *
  )
  insert into throughput as total (hour, topic, shard, delivered, first_attempt, dead_lettered)
  select hour, topic, shard % 64, sum(delivered), sum(first_attempt), sum(dead_lettered)
  from folded group by 1, 2, 3 order by 1, 2, 3
  on conflict (hour, topic, shard) do update set delivered = total.delivered + excluded.delivered,
    first_attempt = total.first_attempt + excluded.first_attempt,
    dead_lettered = total.dead_lettered + excluded.dead_lettered;
  perform set_config('synchronous_commit', 'off', true);
end
$$;--> statement-breakpoint
-- Writes the deliveries of these markers, which it deletes, in (created_at, seq) order.
create or replace function postbud_place_2(
  marker_ids tid[],
  out events int,
  -- The lanes to be lengthened, up to where, and since when they are due.
  out lanes bigint[],
  out tails bigint[],
  out firsts timestamptz[],
  out changes postbud_change_1[],
  -- Where it is a single event: its place and its id.
  out "position" bigint,
  out event_id uuid
) language plpgsql as $$
#variable_conflict use_column
declare
  one record;
  batch record;
  ids bigint[];
  subscriber text;
begin
  events := 0;
  if cardinality(marker_ids) = 1 then
    delete from awaiting_fan_out where ctid = marker_ids[1]
    returning topic, created_at, awaiting_fan_out.event_id, ordering_key, payload_bytes, subscribers,
      case when ordering_key <> '' then postbud_slot(ordering_key) end as slot
    into one;
    if found then
      events := 1;
      event_id := one.event_id;
      position := nextval('delivery_positions');
      lanes := postbud_lanes_2(one.topic, one.subscribers, one.slot, position);
      insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key)
      select lane.id, postbud_place_2.position, one.event_id, one.payload_bytes, nullif(one.ordering_key, '')
      from unnest(lanes) as lane(id);
      tails := array_fill(position, array[cardinality(lanes)]);
      firsts := array_fill(one.created_at, array[cardinality(lanes)]);
      changes := array[row(one.topic, '', 1, 0, 0, 0, 0, 0, null, null)::postbud_change_1];
      foreach subscriber in array one.subscribers loop
        changes := changes || row(one.topic, subscriber, 1, 0, 0, 0, 0, 0, null, null)::postbud_change_1;
      end loop;
    end if;
    return;
  end if;
  for batch in
    with picked as (
      -- By address, not by a join, which would read all that waits.
      delete from awaiting_fan_out where ctid = any (marker_ids) returning awaiting_fan_out.*
    ),
    placed as (
      select *, nextval('delivery_positions') as position
      from (select * from picked order by created_at, seq) as in_order
    )
    select topic, slot, subscribers, array_agg(position order by position) as positions,
      array_agg(event_id order by position) as event_ids,
      array_agg(nullif(ordering_key, '') order by position) as keys,
      array_agg(payload_bytes order by position) as bytes, max(position) as tail, min(created_at) as first_at
    from placed, lateral (
      select case when ordering_key <> '' then postbud_slot(ordering_key) end as slot
    ) as addressed
    group by topic, slot, subscribers
  loop
    events := events + cardinality(batch.positions);
    ids := postbud_lanes_2(batch.topic, batch.subscribers, batch.slot, batch.tail);
    insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key)
    select lane.id, position, event_id, payload_bytes, case when batch.slot is not null then ordering_key end
    from unnest(ids) as lane(id), unnest(batch.positions, batch.event_ids, batch.bytes, batch.keys)
      as placed(position, event_id, payload_bytes, ordering_key);
    lanes := lanes || ids;
    tails := tails || array_fill(batch.tail, array[cardinality(ids)]);
    firsts := firsts || array_fill(batch.first_at, array[cardinality(ids)]);
    -- The event's own, then those of its subscribers.
    changes := changes
      || row(batch.topic, '', cardinality(batch.positions), 0, 0, 0, 0, 0, null, null)::postbud_change_1;
    foreach subscriber in array batch.subscribers loop
      changes := changes
        || row(batch.topic, subscriber, cardinality(batch.positions), 0, 0, 0, 0, 0, null, null)::postbud_change_1;
    end loop;
  end loop;
end
$$;--> statement-breakpoint
-- The lanes that take events of a topic for subscribers, made where there are none yet: that of the topic without a slot,
-- else the shared one.
--
-- Of a lane that changes with each event an index has an entry for each page of its versions, and beside an old snapshot all
-- of them stay. Its newest version has the last entry: so the entries are read from their end, here and wherever a turn
-- finds a lane. An equality would be read from the beginning, whatever order is asked for.
create or replace function postbud_lanes_2(
  for_topic text, subscribers text[], for_slot smallint, newest bigint
) returns bigint[] language plpgsql as $$
declare
  ids bigint[];
begin
  for attempt in 1..2 loop
    if for_slot is null then
      select array_agg(lane.id) into ids
      from unnest(subscribers) as wanted(subscriber), lateral (
        select id from lanes
        where (topic, lanes.subscriber, ordering_key) >= (for_topic, wanted.subscriber, '')
          and (topic, lanes.subscriber, ordering_key) <= (for_topic, wanted.subscriber, '')
        order by topic desc, lanes.subscriber desc, ordering_key desc limit 1
      ) as lane;
    else
      select array_agg(lane.id) into ids
      from unnest(subscribers) as wanted(subscriber), lateral (
        select id from lanes
        where (topic, lanes.subscriber, slot, held_key) >= (for_topic, wanted.subscriber, for_slot, '')
          and (topic, lanes.subscriber, slot, held_key) <= (for_topic, wanted.subscriber, for_slot, '')
          and slot is not null
        order by topic desc, lanes.subscriber desc, slot desc, held_key desc limit 1
      ) as lane;
    end if;
    exit when coalesce(cardinality(ids), 0) = cardinality(subscribers);
    insert into lanes (topic, subscriber, ordering_key, slot, needed_version, tail)
    select for_topic, subscriber, case when for_slot is null then '' end, for_slot,
      case when for_slot is not null then 32767 end, newest
    from unnest(subscribers) as subscriber order by subscriber
    on conflict do nothing;
  end loop;
  return coalesce(ids, '{}');
end
$$;--> statement-breakpoint
-- No event is from before its transaction began, even when the clock has stepped back: see postbud_fan_out_3.
do $$
begin
  execute replace(pg_get_functiondef('postbud_emit'::regproc), 'postbud_emit.traceparent, clock_timestamp())',
    'postbud_emit.traceparent, greatest(clock_timestamp(), now()))');
end
$$;--> statement-breakpoint
-- Waits for transactions that have emitted to end, for some milliseconds at most. `emit` takes a shared lock on the number of its
-- backend; whoever gets that lock alone knows that the transaction has ended, and lets go of it at once: a lock of the session
-- within one expression, which nothing interrupts, and a lock of the transaction by the end of a subtransaction.
-- @returns whether all have ended.
create or replace function postbud_await_emitters_1(emitters int[], may_wait boolean) returns boolean language plpgsql as $$
declare
  emitter int;
begin
  foreach emitter in array emitters loop
    continue when pg_try_advisory_lock(36963, emitter) and pg_advisory_unlock(36963, emitter);
    if not may_wait then
      return false;
    end if;
    begin
      perform set_config('lock_timeout', '8ms', true);
      perform pg_advisory_xact_lock(36963, emitter);
      raise exception using errcode = 'PB005', message = 'the transaction has ended';
    exception
      when lock_not_available then
        return false;
      when sqlstate 'PB005' then
        null;
    end;
  end loop;
  return true;
end
$$;--> statement-breakpoint
-- Fans out: writes one delivery for each subscriber that an event names, for the events whose place in the order is
-- certain, in (created_at, seq) order. The lanes are not touched: the caller lengthens them, since it locks all that it
-- changes together.
--
-- The quiet fence. `emit` takes a shared lock on its topic before it reads the clock and its marker draws a number. So an
-- event created before `at` belongs to a transaction that is visible to the statements after the one that reads the locks,
-- or that held its lock then. And a transaction has no event from before it began: what is older does not wait for it. One
-- fan-out at a time, so that positions are drawn in the order of their commits. While another one runs, this waits for it
-- if it may: whoever holds no other lock. Else it does nothing.
--
-- `memory` is what its process learned from the call before, and goes into the next one:
--
-- - `from`: all markers up to this number are fanned out, or will never be, except where a pin says otherwise. What is dead
--   stands before it in the index, and is not read. It moves on a few times a second. Once a minute all is read (`wholeAt`).
-- - `pins`, by lock: which transactions must end before the events of its topics up to a moment (`at`) may be fanned out. It
--   waits for exactly those, not for silence, for a topic with a new emitter at every look is never quiet. Their events have
--   a `from` of their own, which for a second is read too. A prepared transaction survives a restart of the server, but
--   under another name: so one that was not there before may be any of those that were.
-- - `reserved`: up to which position deliveries may be numbered.
-- - `server`: in whose life this is true. A crash takes back numbers that were drawn; see postbud_turn_4.
--
-- Mostly nothing is pinned, few events wait, and nobody emits to their topics at this moment: whoever could lock such a topic
-- for himself knows that, and need not read the locks of all.
--
-- With `is_careful` each event is fanned out by itself, and one that cannot be is set aside: a row that should not exist
-- stops nothing but itself.
create or replace function postbud_fan_out_3(
  inout memory jsonb,
  may_wait boolean,
  max_events int,
  is_careful boolean,
  -- Backends whose transactions have emitted and are about to commit: this waits for them if it may, for some milliseconds.
  awaited int[],
  out at timestamptz,
  out events int,
  -- Whether events still wait for fan-out: for a producer's transaction, for another relay, or for the next turn.
  out is_awaited boolean,
  -- Whether the awaited transactions had ended when this looked.
  out is_met boolean,
  -- Whether there are events that do not say whom they are for: releases up to 0.1 wrote them.
  out has_unaddressed boolean,
  -- The lanes to be lengthened, up to where, and since when they are due.
  out lanes bigint[],
  out tails bigint[],
  out firsts timestamptz[],
  out changes postbud_change_1[],
  -- Where it is a single event: its place and its id.
  out "position" bigint,
  out event_id uuid,
  -- Whether events were recorded at a time that the clock has not come to.
  out is_ahead boolean,
  -- Whether the commit has to wait for the disk.
  out is_durable boolean
) language plpgsql as $$
declare
  scan_from bigint := memory -> 'from';
  -- What somebody wrote by hand, without the lock, may have been passed over.
  is_whole constant boolean := extract(epoch from clock_timestamp()) - (memory ->> 'wholeAt')::float8 > 60;
  pins jsonb := nullif(memory -> 'pins', 'null');
  topic_name text;
  last_topic text;
  topics text[];
  leasts timestamptz[];
  untils timestamptz[];
  found_events bigint;
  is_quiet boolean;
  number_now bigint;
  holders jsonb;
  began jsonb;
  passed jsonb;
  pinned_from bigint;
  marker_ids tid[];
  marker_id tid;
  placed record;
  rest record;
begin
  events := 0;
  is_awaited := false;
  is_durable := false;
  if is_whole then
    scan_from := 0;
  end if;
  is_met := awaited is null or postbud_await_emitters_1(awaited, may_wait);
  select min(topic), max(topic), count(*), coalesce(bool_or(subscribers is null), false)
  into topic_name, last_topic, found_events, has_unaddressed
  from (select topic, subscribers from awaiting_fan_out where number > scan_from order by number limit 1000) as first;
  if found_events > 0 then
    topics := array[topic_name];
    if last_topic <> topic_name then
      topics := array(
        select distinct topic
        from (select topic from awaiting_fan_out where number > scan_from order by number limit 1000) as first
      );
    end if;
  end if;
  if topics is null and pins is null then
    memory := case when is_whole then memory || jsonb_build_object('wholeAt', extract(epoch from clock_timestamp())) end;
    return;
  end if;
  if not pg_try_advisory_xact_lock(36952, 0) then
    if not may_wait then
      is_awaited := true;
      memory := null;
      return;
    end if;
    perform pg_advisory_xact_lock(36952, 0);
  end if;
  number_now := coalesce(pg_sequence_last_value('awaiting_fan_out_number_seq'), 0);
  at := clock_timestamp();
  is_quiet := pins is null and found_events < 1000 and not has_unaddressed and not is_whole
    and extract(epoch from at) - (memory ->> 'movedAt')::float8 < 0.2;
  if is_quiet then
    foreach topic_name in array topics loop
      is_quiet := is_quiet and pg_try_advisory_lock(36951, hashtext(topic_name))
        and pg_advisory_unlock(36951, hashtext(topic_name));
    end loop;
  end if;
  if is_quiet then
    -- All that waits of these topics, and in a newer snapshot than the locks that were tried.
    marker_ids := array(
      select ctid from awaiting_fan_out
      where number > scan_from and awaiting_fan_out.topic = any (topics) and created_at < at
      order by created_at, awaiting_fan_out.seq limit max_events
    );
  else
    select jsonb_object_agg(lock, transactions), jsonb_object_agg(lock, began_at) into holders, began
    from (
      -- When the first of them began. Where that of one is not known, as of another role's or a prepared one, none is.
      select lock, jsonb_agg(transaction) as transactions,
        case when count(*) = count(began_at) then least(at, min(began_at)) end as began_at
      from (
        select objid::text as lock, virtualtransaction as transaction,
          case when pid is not null then (select xact_start from pg_stat_get_activity(pid)) end as began_at
        from pg_locks
        where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = 36951 and objsubid = 2
          and database = (select oid from pg_database where datname = current_database())
      ) as held
      group by lock
    ) as held;
    -- Per lock, when its topics may be fanned out up to a moment that is past; and what to wait for next.
    select min((memory_of ->> 'from')::bigint) filter (
        where memory_of is not null and (remaining is null or (memory_of ->> 'at')::timestamptz > at - interval '1 second')
      ),
      -- What is pinned for longer is not read, so nothing newer of its topics may be fanned out either.
      began - coalesce(array_agg(lock) filter (
        where remaining is not null and (memory_of ->> 'at')::timestamptz <= at - interval '1 second'
      ), '{}'),
      jsonb_object_agg(lock, memory_of) filter (where memory_of is not null and remaining is null),
      jsonb_object_agg(lock, case
        when remaining is not null then memory_of || jsonb_build_object('transactions', remaining)
        else jsonb_build_object('at', at, 'from', coalesce(memory_of -> 'from', to_jsonb(scan_from)),
          'upto', number_now, 'transactions', holder)
      end) filter (where holder is not null)
    into pinned_from, began, passed, pins
    from (
      select lock, holder, memory_of, (
        -- After a restart a prepared transaction has no backend. One like that which was not there before may be one of
        -- those that are gone.
        select jsonb_agg(transaction) from jsonb_array_elements_text(holder) as held(transaction)
        where memory_of -> 'transactions' ? transaction or transaction like '-1/%' and exists (
          select from jsonb_array_elements_text(memory_of -> 'transactions') as gone(transaction)
          where gone.transaction not like '-1/%' and not holder ? gone.transaction
        )
      ) as remaining
      from (
        select lock, held.value as holder, pinned.value as memory_of
        from jsonb_each(holders) as held(lock, value) full join jsonb_each(pins) as pinned(lock, value) using (lock)
      ) as locks
    ) as known;
    scan_from := least(scan_from, pinned_from);
    -- In a newer snapshot than the locks: an event that was committed meanwhile may be older than all that were seen.
    select array_agg(topic), array_agg(least_at), coalesce(sum(waiting), 0), coalesce(bool_or(is_unaddressed), false)
    into topics, leasts, found_events, has_unaddressed
    from (
      select topic, min(created_at) as least_at, count(*) as waiting, bool_or(subscribers is null) as is_unaddressed
      from (
        select topic, created_at, subscribers from awaiting_fan_out where number > scan_from order by number limit 1000
      ) as first
      -- Another order each time, so that under a flood no topic is always last.
      group by topic order by random()
    ) as waiting;
    select array_agg(case when coalesce(holders ? lock, false)
      then greatest((passed -> lock ->> 'at')::timestamptz, (began ->> lock)::timestamptz) else at end
      order by turn) into untils
    from unnest(topics) with ordinality as waiting(topic, turn),
      lateral (select (hashtext(topic)::bigint & 4294967295)::text as lock) as named;
    if has_unaddressed or found_events >= 1000 then
      has_unaddressed := exists (select from awaiting_fan_out where subscribers is null);
    end if;
    if has_unaddressed then
      -- Nothing overtakes an event that does not say whom it is for.
      select array_agg(case when until is not null then least(until, (
        select created_at from awaiting_fan_out as unaddressed
        where unaddressed.topic = waiting.topic and subscribers is null order by created_at limit 1
      )) end order by turn) into untils
      from unnest(topics, untils) with ordinality as waiting(topic, until, turn);
    end if;
    if found_events >= 1000 then
      -- Behind these there may be older ones of their topics.
      leasts := array_fill('-infinity'::timestamptz, array[cardinality(topics)]);
    end if;
    marker_ids := array(
      -- Each topic in its own order; between topics there is none, so that nothing need be sorted or read without effect.
      select waiting.id
      from unnest(topics, leasts, untils) as ready(topic, least_at, until), lateral (
        select ctid as id from awaiting_fan_out
        where awaiting_fan_out.topic = ready.topic and created_at >= ready.least_at and created_at < ready.until
        order by created_at, seq limit max_events
      ) as waiting
      limit max_events
    );
  end if;
  if coalesce(pg_sequence_last_value('delivery_positions'), 0) + cardinality(marker_ids) > (memory -> 'reserved')::bigint
  then
    memory := memory || jsonb_build_object('reserved', postbud_reserve_positions_1(memory ->> 'server', cardinality(marker_ids)));
    is_durable := true;
  end if;
  if not is_careful then
    if cardinality(marker_ids) > 0 then
      placed := postbud_place_2(marker_ids);
      events := placed.events;
      lanes := placed.lanes;
      tails := placed.tails;
      firsts := placed.firsts;
      changes := placed.changes;
      position := placed.position;
      event_id := placed.event_id;
    end if;
  else
    foreach marker_id in array marker_ids loop
      begin
        select * into strict placed from postbud_place_2(array[marker_id]);
        events := events + placed.events;
        lanes := lanes || placed.lanes;
        tails := tails || placed.tails;
        firsts := firsts || placed.firsts;
        changes := changes || placed.changes;
      exception
        -- A statement that is cancelled, and a lock that somebody else holds, say nothing about the row.
        when serialization_failure or deadlock_detected or lock_not_available or query_canceled then
          raise;
        when others then
          with unfit as (
            delete from awaiting_fan_out where ctid = marker_id returning *
          )
          insert into set_aside (at, kind, topic, event_id, found)
          select clock_timestamp(), 'unfit_marker', unfit.topic, unfit.event_id,
            to_jsonb(unfit) || jsonb_build_object('error', sqlerrm, 'code', sqlstate)
          from unfit;
      end;
    end loop;
  end if;
  if is_quiet then
    -- Only the locks of these topics are known.
    memory := case when is_durable then memory end;
    is_awaited := events < found_events;
    return;
  end if;
  -- How far all is fanned out, but for what is pinned; and the same for each pin whose moment has come. Not beyond the numbers
  -- that were drawn before the locks were read: of the emitters that came since, some are open.
  with left_over as materialized (
    select number, created_at, topic, (hashtext(topic)::bigint & 4294967295)::text as lock
    from awaiting_fan_out where number > scan_from order by number limit 1000
  )
  select count(*) as events, max(number) as upto, min(number) filter (where pins is null or not pins ? lock) as first,
    (select jsonb_object_agg(lock, first) from (select lock, min(number) as first from left_over group by lock) as of_lock)
      as firsts,
    -- Only a clock that was ahead explains a time in the future. Nothing else leaves a topic without an event to fan out.
    coalesce(bool_or(created_at > at + interval '10 seconds'), false) as is_ahead
  into rest from left_over;
  is_ahead := rest.is_ahead;
  memory := memory || jsonb_build_object('movedAt', extract(epoch from at), 'from', greatest(scan_from,
      least(number_now, coalesce(rest.first - 1, case when rest.events = 1000 then rest.upto else number_now end))),
    'wholeAt', case when is_whole then to_jsonb(extract(epoch from at)) else memory -> 'wholeAt' end, 'pins', (
      select jsonb_object_agg(lock, pin || case
        when passed ? lock and rest.events < 1000 then jsonb_build_object('from',
          least((rest.firsts ->> lock)::bigint - 1, (passed -> lock ->> 'upto')::bigint))
        else '{}'
      end || case when rest.firsts ? lock then '{"waits": true}' else '{}' end::jsonb)
      from jsonb_each(pins) as pinned(lock, pin)
    ));
  is_awaited := rest.events > 0 or coalesce(memory -> 'pins' @? '$.*.waits', false);
end
$$;--> statement-breakpoint
-- Reserves positions, so that what is drawn next is never drawn again. The caller commits with the disk. In another life of
-- the server than that which reserved the last ones, what was drawn of them may be forgotten: all of them are left out.
create or replace function postbud_reserve_positions_1(of_server text, most int) returns bigint language plpgsql as $$
declare
  reserved record;
begin
  select * into reserved from reserved_positions for update;
  if not found then
    insert into reserved_positions values (0, '') returning * into reserved;
  end if;
  if reserved.server <> of_server and reserved.until > coalesce(pg_sequence_last_value('delivery_positions'), 0) then
    perform setval('delivery_positions', reserved.until);
  end if;
  if reserved.server <> of_server
    or coalesce(pg_sequence_last_value('delivery_positions'), 0) + most > reserved.until
  then
    update reserved_positions set server = of_server,
      until = coalesce(pg_sequence_last_value('delivery_positions'), 0) + most + 100000
    returning until into reserved.until;
  end if;
  return reserved.until;
end
$$;--> statement-breakpoint
-- Records outcomes and lets the lanes go, or keeps them. A lane whose token is no longer the relay's is passed over with
-- all its outcomes; doing it twice changes nothing the second time. The lanes and their homes must be locked.
--
-- Counters that a row changed by hand contradicts stay where they can be: the doctor finds them, and no lane stops for them.
--
-- `delivered_*`: deliveries of a lane with the same times, to the millisecond, are one row with all their positions.
-- `lane_ids`, `addresses` and `lane_rows` are the locked lanes, and `held` those whose token is still the relay's. With `keeps_more` a lane that
-- has more to deliver is not made due: the caller leases it at once.
create or replace function postbud_settle_3(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  -- Keys that leave their shared lane: one whose handler takes long, with the lease that it is under; or one that a newer
  -- release is needed for.
  leaving jsonb,
  lane_ids bigint[], addresses tid[], lane_rows lanes[], held bigint[],
  is_bounded boolean,
  keeps_more boolean,
  at timestamptz,
  -- The lanes of the keys that left, by the lane that they left and the key.
  out left_for jsonb,
  out delivered int,
  out failed int,
  out waited int,
  out dead_lettered int,
  out changes postbud_change_1[],
  -- The lanes that have more to deliver and are not due; and whether others are due by now.
  out more bigint[],
  out makes_due boolean
) language plpgsql as $$
declare
  is_all_held constant boolean := cardinality(held) = cardinality(outcomes);
  one postbud_outcome_2;
  is_of_key boolean := false;
  is_waiting boolean := false;
  moved postbud_change_1[];
  is_small boolean := cardinality(delivered_lanes) <= 16;
  delivery record;
  event_ids uuid[] := '{}';
  opens int[] := '{}';
  failings int[] := '{}';
  place int;
  own lanes;
  again record;
  new_head bigint;
  is_kept boolean;
  due timestamptz;
  places tid[] := '{}';
  heads bigint[] := '{}';
  tails bigint[] := '{}';
  carefuls bigint[] := '{}';
  waits smallint[] := '{}';
  tokens uuid[] := '{}';
  untils timestamptz[] := '{}';
  dues timestamptz[] := '{}';
  kept bigint[] := '{}';
  kept_until timestamptz;
begin
  foreach one in array outcomes loop
    is_of_key := is_of_key or one.id <> one.home;
    is_waiting := is_waiting or one.waits;
  end loop;
  delivered := 0;
  failed := 0;
  waited := 0;
  dead_lettered := 0;
  makes_due := unfinished is not null or leaving is not null;
  if is_small then
    for number in 1..cardinality(delivered_lanes) loop
      is_small := is_small and strpos(delivered_positions[number], ',') = 0;
    end loop;
  end if;
  if is_small and cardinality(delivered_lanes) > 0 then
    for delivery in
      update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.in_ms,
        attempted_at = to_timestamp(attempt.at_ms / 1000),
        delivered_at = to_timestamp((attempt.at_ms + attempt.in_ms) / 1000), next_attempt_at = null
      from unnest(delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms, delivered_in_ms)
        as attempt(lane, home, positions, at_ms, in_ms)
      where deliveries.lane_id = attempt.home and deliveries.position = trim(attempt.positions, '{}')::bigint
        and coalesce(deliveries.state in ('pending', 'failing'), false)
        and (is_all_held or attempt.lane = any (held))
      returning attempt.lane, deliveries.event_id, (deliveries.attempts > 1)::int as was_failing,
        (deliveries.attempts = 1 and replays = 0)::int as first_attempt, deliveries.delivered_at
    loop
      delivered := delivered + 1;
      own := lane_rows[array_position(lane_ids, delivery.lane)];
      changes := changes || row(own.topic, own.subscriber, delivery.was_failing - 1, -delivery.was_failing, 0, 1,
        delivery.first_attempt, 0, delivery.delivered_at, null)::postbud_change_1;
      place := array_position(event_ids, delivery.event_id);
      if place is null then
        event_ids := event_ids || delivery.event_id;
        opens := opens || 1;
        failings := failings || delivery.was_failing;
      else
        opens[place] := opens[place] + 1;
        failings[place] := failings[place] + delivery.was_failing;
      end if;
    end loop;
    for delivery in
      -- In the order of their ids, as below.
      update events set open = greatest(events.open - change.open, 0),
        failing = least(greatest(events.failing - change.failing, 0), greatest(events.open - change.open, 0))
      from (select * from unnest(event_ids, opens, failings) as change(id, open, failing) order by id) as change
      where events.id = change.id
      returning events.topic, events.state as becomes, postbud_event_state(
        events.open + change.open, events.failing + change.failing, events.dead_lettered) as was
    loop
      if delivery.was <> delivery.becomes then
        changes := changes || postbud_event_moved(delivery.topic, delivery.was, delivery.becomes);
      end if;
    end loop;
  elsif cardinality(delivered_lanes) > 0 then
    with settled as (
      update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.in_ms,
        attempted_at = to_timestamp(attempt.at_ms / 1000),
        delivered_at = to_timestamp((attempt.at_ms + attempt.in_ms) / 1000), next_attempt_at = null
      from unnest(delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms, delivered_in_ms)
        as attempt(lane, home, positions, at_ms, in_ms)
      where deliveries.lane_id = attempt.home and deliveries.position = any (attempt.positions::bigint[])
        and coalesce(deliveries.state in ('pending', 'failing'), false)
        and (is_all_held or attempt.lane = any (held))
      returning attempt.lane, deliveries.event_id, (deliveries.attempts > 1)::int as was_failing,
        (deliveries.attempts = 1 and replays = 0)::int as first_attempt, deliveries.delivered_at
    ),
    change as (
      select event_id, count(*)::int as open, sum(was_failing)::int as failing from settled group by event_id
    ),
    changed_event as (
      -- In the order of their ids: two relays that settle deliveries of the same events would otherwise wait for each
      -- other in a ring. Locking them first would cost a record in the log for each.
      update events set open = greatest(events.open - change.open, 0),
        failing = least(greatest(events.failing - change.failing, 0), greatest(events.open - change.open, 0))
      from (select * from change order by event_id) as change
      where events.id = change.event_id
      returning events.topic, events.state as becomes, postbud_event_state(
        events.open + change.open, events.failing + change.failing, events.dead_lettered) as was
    ),
    lane_change as (
      select lane, count(*)::int as delivered, sum(was_failing)::int as failing,
        sum(first_attempt)::int as first_attempt, max(delivered_at) as last_delivered_at
      from settled group by lane
    )
    select (select sum(lane_change.delivered) from lane_change),
      array(
        select row(topic, subscriber, lane_change.failing - lane_change.delivered, -lane_change.failing, 0,
          lane_change.delivered, first_attempt, 0, last_delivered_at, null)::postbud_change_1
        from lane_change join unnest(lane_rows) as lanes
          on lanes.id = lane
      ),
      array(select postbud_event_moved(topic, was, becomes) from changed_event where was <> becomes)
    into delivered, changes, moved;
    delivered := coalesce(delivered, 0);
    changes := changes || moved;
  end if;
  if unfinished is not null then
    declare
      attempts_of postbud_change_1[];
      counts record;
    begin
      with attempt as materialized (
        select * from jsonb_to_recordset(unfinished) as attempt(lane bigint, home bigint, position bigint,
          at timestamptz, duration_ms int, burnt int, next_attempt_at timestamptz, error_group jsonb, entry jsonb,
          halts boolean)
      ),
      settled as (
        update deliveries set attempts = deliveries.attempts + attempt.burnt, attempted_at = attempt.at,
          duration_ms = attempt.duration_ms, next_attempt_at = attempt.next_attempt_at,
          state = case when attempt.next_attempt_at is null then 'dead_lettered'
            when attempt.burnt = 1 then 'failing' else deliveries.state end,
          dead_lettered_at = case when attempt.next_attempt_at is null
            then attempt.at + attempt.duration_ms * interval '1 millisecond' end,
          error_group = attempt.error_group ->> 'key',
          attempt_log = coalesce(deliveries.attempt_log, '[]')
            || (attempt.entry || jsonb_build_object('attempt', deliveries.attempts + 1))
        from attempt
        where deliveries.lane_id = attempt.home and deliveries.position = attempt.position
          and coalesce(deliveries.state in ('pending', 'failing'), false)
          and (is_all_held or attempt.lane = any (held))
        returning attempt.lane, deliveries.position, deliveries.event_id, deliveries.lane_key,
          deliveries.next_attempt_at, attempt.burnt, attempt.error_group,
          attempt.home, attempt.halts, attempt.at,
          (attempt.next_attempt_at is null)::int as dead,
          (deliveries.state = 'failing')::int - (deliveries.attempts > attempt.burnt)::int as failing,
          case when attempt.burnt = 1 then attempt.at + attempt.duration_ms * interval '1 millisecond' end as failed_at
      ),
      change as (
        select event_id, sum(dead)::int as dead, sum(settled.failing)::int as failing from settled group by event_id
      ),
      changed_event as (
        update events set open = greatest(events.open - change.dead, 0),
          failing = least(greatest(events.failing + change.failing, 0), greatest(events.open - change.dead, 0)),
          dead_lettered = events.dead_lettered + change.dead
        from (select * from change order by event_id) as change
        where events.id = change.event_id
        returning events.topic, events.state as becomes, postbud_event_state(
          events.open + change.dead, events.failing - change.failing, events.dead_lettered - change.dead) as was
      ),
      -- A key that waits leaves its shared lane to the others. Its deliveries stay where they are.
      in_trouble as (
        insert into lanes (topic, subscriber, slot, held_key, home_id, head, tail, needed_version, due_at)
        select home.topic, home.subscriber, home.slot, settled.lane_key, home.id,
          -- Moved back since the claim: a replay may have put back what comes first of this key.
          case when home.head = outcome.head_was then settled.position - (not coalesce(halts, false))::int
            else least(settled.position - 1, home.head) end,
          settled.position, 32767, case when home.head <> outcome.head_was then postbud_settle_3.at
            when halts then 'infinity' else settled.next_attempt_at end
        from settled join unnest(outcomes) as outcome on outcome.id = settled.lane, lateral (
            select * from lanes where lanes.id >= settled.lane and lanes.id <= settled.lane order by lanes.id desc limit 1
          ) as home
        where home.slot is not null and home.home_id is null and (settled.next_attempt_at is not null or halts)
        order by settled.position
        on conflict (topic, subscriber, slot, held_key) where slot is not null
          do update set head = least(lanes.head, excluded.head), due_at = excluded.due_at
      ),
      halted as (
        insert into halts (lane_id, position, lane_key, topic, subscriber, halted_at)
        select home, settled.position, settled.lane_key, topic, subscriber, settled.at
        from settled join unnest(lane_rows) as lanes
          on lanes.id = settled.lane
        where halts
        on conflict (lane_id, position) do update set halted_at = excluded.halted_at
      ),
      dead as (
        insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
        select error_group ->> 'key', topic, subscriber, min(error_group ->> 'kind'), min(error_group ->> 'message'),
          count(*)
        from settled join unnest(lane_rows) as lanes
          on lanes.id = settled.lane
        where settled.dead = 1
        -- After the events, in the order of their keys.
          and (select count(*) from changed_event) >= 0
        group by 1, 2, 3 order by 1
        on conflict (key) do update set dead_lettered = known.dead_lettered + excluded.dead_lettered
      )
      select array(
          select row(topic, subscriber, (-settled.dead - settled.failing), settled.failing, settled.dead, 0, 0,
            settled.burnt, null, failed_at)::postbud_change_1
          from settled join unnest(lane_rows) as lanes
            on lanes.id = settled.lane
        ) as changes,
        array(select postbud_event_moved(topic, was, becomes) from changed_event where was <> becomes) as moved,
        (select count(*) from settled where dead = 0 and burnt = 1) as failed,
        (select count(*) from settled where burnt = 0) as waited,
        (select count(*) from settled where dead = 1) as dead_lettered
      into counts;
      changes := changes || counts.changes || counts.moved;
      failed := counts.failed;
      waited := counts.waited;
      dead_lettered := counts.dead_lettered;
    end;
  end if;
  if leaving is not null then
    with gone as (
      insert into lanes (topic, subscriber, slot, held_key, home_id, head, tail, needed_version, waits_for_version,
        held_version, lease_token, leased_until, due_at)
      select topic, subscriber, slot, key, home.id,
        case when home.head = outcome.head_was then key_leaving.position - 1
          else least(key_leaving.position - 1, home.head) end,
        key_leaving.position, 32767,
        key_leaving.waits_for_version, home.held_version,
        case when key_leaving.keep_until is not null then home.lease_token end,
        to_timestamp(key_leaving.keep_until / 1000), coalesce(to_timestamp(key_leaving.keep_until / 1000), at)
      from jsonb_to_recordset(leaving) as key_leaving(lane bigint, key text, position bigint, keep_until float8,
          waits_for_version smallint)
        join unnest(outcomes) as outcome on outcome.id = key_leaving.lane, lateral (
          select * from lanes
          where lanes.id >= key_leaving.lane and lanes.id <= key_leaving.lane order by lanes.id desc limit 1
        ) as home
      where home.id = any (held)
      on conflict (topic, subscriber, slot, held_key) where slot is not null
        do update set head = least(lanes.head, excluded.head)
      returning id, home_id, held_key
    )
    select json_agg(gone) into left_for from gone;
  end if;
  is_bounded := is_bounded or unfinished is not null and exists (select from halts);
  if is_waiting then
    perform postbud_record_presence_1(outcomes, held, delivered_lanes, unfinished, at);
  end if;
  if makes_due then
    -- As the statements above left them.
    again := postbud_lock_lanes_1(lane_ids);
    lane_ids := again.ids;
    addresses := again.addresses;
    lane_rows := again.rows;
  end if;
  foreach one in array outcomes loop
    place := array_position(lane_ids, one.id);
    own := lane_rows[place];
    continue when one.token is distinct from own.lease_token;
    is_kept := one.keep_until is not null;
    -- Moved back since the claim: a replay put deliveries back, which come first.
    new_head := case when own.head = one.head_was then one.head_is else own.head end;
    due := null;
    if is_kept then
      if own.home_id is not null then
        due := greatest(own.due_at, to_timestamp(one.keep_until / 1000));
      elsif one.keep_until = 0 then
        due := own.due_at;
      else
        kept := kept || own.id;
        kept_until := greatest(kept_until, to_timestamp(one.keep_until / 1000));
      end if;
    elsif own.head <> one.head_was then
      due := at;
    elsif is_bounded and one.head_is >= postbud_front_1(
      own.topic, own.subscriber, coalesce(own.home_id, own.id), nullif(own.held_key, ''))
    then
      due := 'infinity';
    elsif one.retry_at is not null then
      due := to_timestamp(one.retry_at / 1000);
    elsif own.home_id is null then
      if own.tail > one.head_is and keeps_more then
        more := more || own.id;
      elsif own.tail > one.head_is then
        due := at;
      end if;
    elsif exists (
      select from deliveries
      -- The row is compared as the index of keys has it.
      where (lane_id, lane_key, position) > (own.home_id, own.held_key, one.head_is)
        and lane_id = own.home_id and lane_key = own.held_key
        and coalesce(state in ('pending', 'failing'), false)
    ) then
      due := at;
    end if;
    makes_due := makes_due or not is_kept and coalesce(due <= at, false);
    places := places || addresses[place];
    heads := heads || new_head;
    tails := tails || greatest(own.tail, one.head_is);
    carefuls := carefuls || greatest(own.careful_to, one.careful_to);
    waits := waits || case when own.head = one.head_was then one.waits_for_version end;
    tokens := tokens || case when is_kept then own.lease_token end;
    untils := untils || case when is_kept
      then greatest(own.leased_until, own.due_at, to_timestamp(one.keep_until / 1000)) end;
    dues := dues || due;
  end loop;
  update lanes set head = let_go.head, tail = let_go.tail, careful_to = let_go.careful_to,
    waits_for_version = let_go.waits, lease_token = let_go.token, leased_until = let_go.until, due_at = let_go.due
  from unnest(places, heads, tails, carefuls, waits, tokens, untils, dues)
    as let_go(address, head, tail, careful_to, waits, token, until, due)
  where lanes.ctid = let_go.address;
  if cardinality(kept) > 0 then
    insert into leases values (kept_until, kept);
  end if;
  -- The key is through: what comes for it next goes to its shared lane again.
  if is_of_key then
    delete from lanes where id = any (held) and home_id is not null and due_at is null;
  end if;
end
$$;--> statement-breakpoint
-- Locks lanes, in the order of their ids, and reads them.
create or replace function postbud_lock_lanes_1(
  wanted bigint[], out ids bigint[], out addresses tid[], out rows lanes[]
) language plpgsql as $$
begin
  select array_agg(newest.id), array_agg(newest.address), array_agg(newest.lane) into ids, addresses, rows
  from (select distinct id from unnest(wanted) as wanted(id) order by id) as wanted, lateral (
    select id, ctid as address, lanes as lane from lanes
    where lanes.id >= wanted.id and lanes.id <= wanted.id order by lanes.id desc limit 1 for update
  ) as newest;
end
$$;--> statement-breakpoint
-- Settles in the transaction of a handler. @returns how many deliveries it recorded as delivered.
create or replace function postbud_settle_alone_3(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  leaving jsonb
) returns int language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  at timestamptz;
  wanted bigint[];
  outcome postbud_outcome_2;
  held bigint[] := '{}';
  locked record;
  settled record;
begin
  perform postbud_require_read_committed_1();
  foreach outcome in array outcomes loop
    wanted := wanted || outcome.id || outcome.home;
  end loop;
  locked := postbud_lock_lanes_1(wanted);
  foreach outcome in array outcomes loop
    if (locked.rows[array_position(locked.ids, outcome.id)]).lease_token = outcome.token then
      held := held || outcome.id;
    end if;
  end loop;
  at := clock_timestamp();
  settled := postbud_settle_3(outcomes, delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms,
    delivered_in_ms, unfinished, leaving, locked.ids, locked.addresses, locked.rows, held,
    exists (select from halts) or exists (select from backfills where ended_at is null), false, at);
  if cardinality(settled.changes) > 0 then
    perform postbud_count_2(settled.changes, at);
  end if;
  return settled.delivered;
end
$$;--> statement-breakpoint
-- Leases lanes and reads their next deliveries. The lanes are locked, and `turns` say which of the asked subscriptions each is
-- leased for; null for one that is only lengthened, and then made due if it was idle. `position` and `event_id`: the single
-- delivery that was just written to the lanes that are lengthened.
--
-- A lane at its front gives nothing. The settlement then makes it due no more, until the front moves.
create or replace function postbud_lease_1(
  token uuid, versions int[], leases_ms float8[], addresses tid[], lane_rows lanes[], turns int[], tails bigint[],
  firsts timestamptz[], probes bigint[], is_bounded boolean, max_deliveries int, at timestamptz,
  "position" bigint, event_id uuid
) returns json language plpgsql as $$
#variable_conflict use_column
declare
  -- Payloads of 16 MiB at most, but one for each lane: a claim of nothing but webhooks of the largest size would otherwise be
  -- more than a string can hold.
  most_bytes constant int := 16 * 1024 * 1024;
  lane lanes;
  place int;
  turn int;
  until timestamptz;
  tokens uuid[] := '{}';
  untils timestamptz[] := '{}';
  held_versions smallint[] := '{}';
  dues timestamptz[] := '{}';
  leased int[] := '{}';
  homes bigint[] := '{}';
  home_untils timestamptz[] := '{}';
  asked int;
  is_plain boolean;
  batch record;
  found_lanes json[] := '{}';
  found_positions bigint[] := '{}';
  found_events uuid[] := '{}';
begin
  for place in 1..cardinality(lane_rows) loop
    lane := lane_rows[place];
    turn := turns[place];
    if turn is null then
      tokens := tokens || lane.lease_token;
      untils := untils || lane.leased_until;
      held_versions := held_versions || lane.held_version;
      dues := dues || coalesce(lane.due_at, case when lane.lease_token is null then least(firsts[place], at) end);
    else
      until := at + leases_ms[turn] * interval '1 millisecond';
      tokens := tokens || token;
      untils := untils || until;
      held_versions := held_versions || versions[turn]::smallint;
      dues := dues || case when lane.home_id is not null then until end;
      leased := leased || place;
      if lane.home_id is null then
        homes := homes || lane.id;
        home_untils := home_untils || until;
      end if;
    end if;
  end loop;
  update lanes set tail = greatest(lanes.tail, changed.tail), lease_token = changed.token, leased_until = changed.until,
    held_version = changed.held_version, due_at = changed.due
  from unnest(addresses, tails, tokens, untils, held_versions, dues)
    as changed(address, tail, token, until, held_version, due)
  where lanes.ctid = changed.address;
  if cardinality(leased) = 0 then
    return null;
  end if;
  if cardinality(homes) = 1 then
    insert into leases values (home_untils[1], homes);
  elsif cardinality(homes) > 1 then
    insert into leases
    select until, array_agg(id) from unnest(home_untils, homes) as leased(until, id) group by until;
  end if;
  asked := greatest(1, max_deliveries / cardinality(leased));
  foreach place in array leased loop
    lane := lane_rows[place];
    is_plain := not is_bounded and lane.home_id is null and lane.head >= lane.careful_to
      and not coalesce(lane.id = any (probes), false)
      and (lane.slot is null or not exists (select from lanes as key where key.home_id = lane.id));
    if is_plain and position is not null and tails[place] = position and lane.head = lane.tail then
      found_positions := found_positions || position;
      found_events := found_events || event_id;
      found_lanes := found_lanes || json_build_object('id', lane.id, 'home', lane.id, 'is_shared', lane.slot is not null,
        'topic', lane.topic, 'subscriber', lane.subscriber, 'head', lane.head, 'newest', position, 'is_probe', false,
        'lapsed_at', case when lane.lease_token is not null then extract(epoch from lane.next_look_at) * 1000 end,
        'lapsed_version', lane.held_version, 'is_whole', asked > 1, 'positions', array[position], 'begun', null);
    else
      batch := postbud_next_batch_1(lane, case when is_plain then asked
        when lane.head < lane.careful_to or lane.id = any (probes) then 1 else asked end,
        most_bytes / cardinality(leased), is_bounded);
      found_positions := found_positions || batch.positions;
      found_events := found_events || batch.event_ids;
      found_lanes := found_lanes || json_build_object('id', lane.id, 'home', coalesce(lane.home_id, lane.id),
        'is_shared', lane.slot is not null and lane.home_id is null, 'topic', lane.topic, 'subscriber', lane.subscriber,
        'head', lane.head, 'newest', coalesce(batch.front, greatest(lane.tail, tails[place])),
        'is_probe', coalesce(lane.id = any (probes), false),
        'lapsed_at', case when lane.lease_token is not null then extract(epoch from lane.next_look_at) * 1000 end,
        'lapsed_version', lane.held_version, 'is_whole', batch.is_whole, 'positions', batch.positions, 'begun', batch.begun);
    end if;
  end loop;
  return json_build_object('lanes', found_lanes, 'events', (
    select json_agg(json_build_array(position, id, topic, payload, version, producer,
      date_part('epoch', created_at) * 1000, seq, ordering_key, correlation_id, causation_id, traceparent,
      erased_at is not null))
    -- Each once, however many lanes carry it: it stands at the same position in all of them.
    from (
      select distinct on (position) position, event_id
      from unnest(found_positions, found_events) as found(position, event_id) order by position
    ) as found join events on id = event_id
  ));
end
$$;--> statement-breakpoint
-- The next deliveries of a lane, in order, up to its front where there is one.
create or replace function postbud_next_batch_1(
  lane lanes, asked int, most_bytes int, is_bounded boolean,
  out positions bigint[], out event_ids uuid[],
  -- Those with an earlier attempt, replay or wait, and those of a backfill.
  out begun json,
  out is_whole boolean,
  out front bigint
) language plpgsql as $$
declare
  batch record;
begin
  if is_bounded then
    front := postbud_front_1(lane.topic, lane.subscriber, coalesce(lane.home_id, lane.id), nullif(lane.held_key, ''));
  end if;
  select coalesce(array_agg(next.position order by next.position) filter (where fits), '{}') as positions,
    coalesce(array_agg(next.event_id order by next.position) filter (where fits), '{}') as event_ids,
    json_agg(json_build_array(next.position, attempts, replays, extract(epoch from next_attempt_at) * 1000, backfilled))
      filter (where fits and (attempts > 0 or replays > 0 or next_attempt_at is not null or backfilled)) as begun,
    count(*) < asked and coalesce(bool_and(fits), true) as is_whole
  into batch
  from (
    select *, sum(payload_bytes) over (order by next.position) - payload_bytes < most_bytes as fits
    from postbud_next_2(lane.id, lane.home_id, lane.slot, lane.held_key, lane.head, asked) as next
    where front is null or next.position <= front
  ) as next;
  positions := batch.positions;
  event_ids := batch.event_ids;
  begun := batch.begun;
  is_whole := batch.is_whole;
end
$$;--> statement-breakpoint
-- Finds due lanes that no relay holds, and locks them. A lane whose lease ran out is due like any other: its relay died.
--
-- `names` are the subscriptions that the relay hands over, topic and subscriber, asked in this order. While a subscriber does
-- not answer, its subscriptions that wait are left out, except for one delivery when a probe is due.
create or replace function postbud_find_due_1(
  names text[], versions int[], leases_ms float8[], waits boolean[], is_down boolean, max_lanes int, at timestamptz,
  out ids bigint[], out turns int[], out probes bigint[]
) language plpgsql as $$
declare
  silent text;
  probe record;
begin
  -- 64 lanes of a subscription at most, so that one with many keys in trouble leaves room for others.
  select array_agg(id), array_agg(turn) into ids, turns
  from (
    select due.id, turn
    from (
      select split_part(name, ' ', 1) as topic, split_part(name, ' ', 2) as subscriber, version, turn
      from unnest(names, versions) with ordinality as asked(name, version, turn)
    ) as asked,
      lateral (
        select id from lanes
        where lanes.topic = asked.topic and lanes.subscriber = asked.subscriber and lanes.due_at <= at
          and coalesce(waits_for_version, 0) <= asked.version
        order by due_at limit 64 for update skip locked
      ) as due
    where not exists (select from pauses where pauses.subscriber = asked.subscriber and pauses.topic in ('', asked.topic))
      and not (is_down and waits[turn]
        and exists (select from outages where outages.subscriber = asked.subscriber and recovered_at is null))
    limit max_lanes
  ) as found;
  if is_down then
    -- Whoever takes a probe puts the next one off, until its lease has run out.
    for silent in
      select subscriber from outages
      where recovered_at is null and next_probe_at <= at
        and subscriber = any (array(
          select split_part(name, ' ', 2) from unnest(names, waits) as asked(name, waits) where asked.waits
        ))
      order by subscriber for update skip locked
    loop
      select due.id, turn into probe
      from unnest(names, versions, waits) with ordinality as asked(name, version, waits, turn),
        lateral (
          select id, due_at from lanes
          where lanes.topic = split_part(name, ' ', 1) and lanes.subscriber = silent and lanes.due_at <= at
            and coalesce(waits_for_version, 0) <= asked.version
          order by due_at limit 1 for update skip locked
        ) as due
      where asked.waits and split_part(name, ' ', 2) = silent
        and not exists (
          select from pauses where pauses.subscriber = silent and pauses.topic in ('', split_part(name, ' ', 1))
        )
      order by due_at limit 1;
      if found then
        update outages set probed_at = at, next_probe_at = at + leases_ms[probe.turn] * interval '1 millisecond'
        where subscriber = silent;
        probes := probes || probe.id;
        ids := probe.id || ids;
        turns := probe.turn || turns;
      end if;
    end loop;
    ids := ids[1:max_lanes];
    turns := turns[1:max_lanes];
  end if;
end
$$;--> statement-breakpoint
-- One turn of a relay in one round trip: fans out, settles what is done, and claims what is due. Each statement in here
-- sees what was committed before it began, and begins only if there is something for it to do: a turn costs as much as it
-- has statements, 10 to 15 microseconds for each before it does anything.
--
-- The order of locks is that of lib/deliveries/locks.ts: the fan-out's, then all lanes that are changed, in the order of
-- their ids, then events, then counters. A claim passes over lanes that others have locked.
--
-- With `max_lanes` 0 it only settles: the relay's time is up. Lanes that it has lengthened or settled itself are leased without
-- being made due first, if they are few. With `is_looking` it looks at all that is due, and then nothing comes before what has
-- waited longer. `max_events`, `is_careful`, `awaited` and `memory` are for the fan-out. The subscriptions are texts of arrays, the
-- names with commas between them: an idle turn reads none of them, and reading hundreds would be a third of its work.
create or replace function postbud_turn_4(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb, leaving jsonb,
  memory jsonb,
  token uuid, names_text text, versions_text text, leases_text text, waits_text text,
  max_lanes int, max_deliveries int, is_looking boolean,
  max_events int, is_careful boolean, awaited int[],
  clock timestamptz
) returns json language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  few constant int := 16;
  -- Another one after each start and each recovery from a crash, and where the numbers of markers begin anew.
  server constant text := concat(pg_postmaster_start_time(), ' ', pg_last_wal_replay_lsn(), ' ',
    pg_relation_filenode('awaiting_fan_out_number_seq'));
  is_memory_new boolean := false;
  names text[];
  versions int[];
  leases_ms float8[];
  waits boolean[];
  now_at timestamptz := coalesce(clock, clock_timestamp());
  passed_at timestamptz;
  fanned record;
  fanned_out int := 0;
  is_awaited boolean := false;
  is_met boolean := false;
  has_unaddressed boolean := false;
  is_clock_back boolean := false;
  is_durable boolean := outcomes is not null;
  lengthened bigint[];
  placed_at bigint;
  placed_event uuid;
  changes postbud_change_1[];
  wanted bigint[];
  outcome postbud_outcome_2;
  locked record;
  lane lanes;
  held bigint[] := '{}';
  is_down boolean;
  has_recovered boolean := false;
  is_paused boolean;
  is_bounded boolean;
  is_crowded boolean := false;
  is_direct boolean;
  settled record;
  settlement json;
  place int;
  turn int;
  turns int[];
  tails bigint[];
  firsts timestamptz[];
  due record;
  has_found_due boolean := false;
  claimed json;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform postbud_require_read_committed_1();
  end if;
  if memory ->> 'server' is distinct from server then
    -- What was pinned stays so: its transactions may be prepared ones.
    memory := jsonb_build_object('server', server, 'from', 0, 'movedAt', 0, 'wholeAt', 0, 'reserved', 0, 'pins', memory -> 'pins');
    is_memory_new := true;
  end if;
  if max_lanes > 0 then
    fanned := postbud_fan_out_3(memory, outcomes is null, max_events, is_careful, awaited);
    if fanned.memory is not null then
      memory := fanned.memory;
      is_memory_new := true;
    end if;
    fanned_out := fanned.events;
    is_awaited := fanned.is_awaited;
    is_met := fanned.is_met;
    has_unaddressed := coalesce(fanned.has_unaddressed, false);
    is_clock_back := coalesce(fanned.is_ahead, false);
    is_durable := is_durable or fanned.is_durable;
    lengthened := fanned.lanes;
    placed_at := fanned.position;
    placed_event := fanned.event_id;
    changes := fanned.changes;
    wanted := lengthened;
  end if;
  if outcomes is not null then
    foreach outcome in array outcomes loop
      wanted := wanted || outcome.id;
      if outcome.home <> outcome.id then
        wanted := wanted || outcome.home;
      end if;
    end loop;
  end if;
  if wanted is not null then
    locked := postbud_lock_lanes_1(wanted);
  end if;
  if wanted is not null or is_looking then
    -- After the lanes are locked: who begins a backfill, or halts a lane, locks them too. Whether anything
    -- is due at all is asked first. Lanes of subscribers that are not attached here are due for long.
    select exists (select from outages where recovered_at is null), exists (select from outages where recovered_at is not null),
      exists (select from pauses), exists (select from halts) or exists (select from backfills where ended_at is null),
      case when is_looking then (select at from last_pass limit 1) end,
      is_looking and exists (select from lanes where due_at <= now_at order by due_at limit 1)
    into is_down, has_recovered, is_paused, is_bounded, passed_at, is_crowded;
  end if;
  if max_lanes > 0 and is_looking then
    -- What operators go by to tell that a relay runs. Once a second is enough, and nobody waits to write it.
    if passed_at is null or passed_at < now_at - interval '1 second' then
      update last_pass set at = now_at where ctid = any (array(select ctid from last_pass for update skip locked));
    end if;
    -- A relay was here at a time that the clock has not come to. A clock that tests set goes where they want.
    is_clock_back := is_clock_back or clock is null and coalesce(passed_at > now_at + interval '10 seconds', false);
  end if;
  is_crowded := is_crowded and max_lanes > 0;
  if max_lanes > 0 and (wanted is not null or is_crowded) then
    names := string_to_array(names_text, ',');
    versions := versions_text;
    leases_ms := leases_text;
    waits := waits_text;
  end if;
  if is_crowded then
    is_crowded := exists (
      select from unnest(names) as name, lateral (
        select from lanes
        where topic = split_part(name, ' ', 1) and subscriber = split_part(name, ' ', 2) and due_at <= now_at limit 1
      ) as due
    );
  end if;
  is_direct := max_lanes > 0 and coalesce(cardinality(wanted), 0) <= least(few, max_lanes) and not is_crowded;
  if outcomes is not null then
    foreach outcome in array outcomes loop
      if (locked.rows[array_position(locked.ids, outcome.id)]).lease_token = outcome.token then
        held := held || outcome.id;
      end if;
    end loop;
    settled := postbud_settle_3(outcomes, delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms,
      delivered_in_ms, unfinished, leaving, locked.ids, locked.addresses, locked.rows, held, is_bounded,
      is_direct, now_at);
    changes := changes || settled.changes;
    settlement := json_build_object('held', held, 'leftFor', settled.left_for, 'delivered', settled.delivered,
      'failed', settled.failed, 'waited', settled.waited, 'deadLettered', settled.dead_lettered);
    is_crowded := is_crowded or settled.makes_due;
    if unfinished is not null then
      -- The settlement may have opened an outage.
      is_down := exists (select from outages where recovered_at is null);
    end if;
    wanted := lengthened || settled.more;
    if is_direct and wanted is not null then
      -- As the settlement left them.
      locked := postbud_lock_lanes_1(wanted);
    end if;
  end if;
  if cardinality(changes) > 0 then
    perform postbud_count_2(changes, now_at);
  end if;
  now_at := coalesce(clock, clock_timestamp());
  if is_direct and wanted is not null then
    for place in 1..cardinality(locked.ids) loop
      lane := locked.rows[place];
      turn := array_position(names, lane.topic || ' ' || lane.subscriber);
      -- An idle lane is due now. Another one is when it was to be looked at.
      if lane.next_look_at > now_at or lane.waits_for_version > versions[turn] then
        turn := null;
      end if;
      if is_paused and exists (
        select from pauses where pauses.subscriber = lane.subscriber and pauses.topic in ('', lane.topic)
      ) then
        turn := null;
      end if;
      if is_down and waits[turn] and exists (
        select from outages where outages.subscriber = lane.subscriber and recovered_at is null
      ) then
        turn := null;
      end if;
      turns[place] := turn;
    end loop;
    -- From their first place on: an array that begins at another one would be read from there.
    tails := array_fill(null::bigint, array[cardinality(locked.ids)]);
    firsts := array_fill(null::timestamptz, array[cardinality(locked.ids)]);
    if lengthened is not null then
      for number in 1..cardinality(lengthened) loop
        place := array_position(locked.ids, lengthened[number]);
        tails[place] := greatest(tails[place], fanned.tails[number]);
        firsts[place] := least(firsts[place], fanned.firsts[number]);
      end loop;
    end if;
    claimed := postbud_lease_1(token, versions, leases_ms, locked.addresses, locked.rows, turns, tails, firsts, null,
      is_bounded, max_deliveries, now_at, placed_at, placed_event);
  elsif lengthened is not null then
    update lanes set tail = greatest(lanes.tail, longer.tail),
      due_at = case when lanes.lease_token is null then coalesce(lanes.due_at, least(longer.first_at, now_at))
        else lanes.due_at end
    from (
      select id, max(tail) as tail, min(first_at) as first_at
      from unnest(lengthened, fanned.tails, fanned.firsts) as longer(id, tail, first_at) group by id
    ) as longer, lateral (
      select ctid as address from lanes where lanes.id >= longer.id and lanes.id <= longer.id order by lanes.id desc limit 1
    ) as newest
    where lanes.ctid = newest.address;
  end if;
  if max_lanes > 0 and claimed is null and (is_crowded or not is_direct) then
    due := postbud_find_due_1(names, versions, leases_ms, waits, is_down, max_lanes, now_at);
    if due.ids is not null then
      has_found_due := true;
      -- In a newer snapshot, now that they are locked, as all that follows.
      locked := postbud_lock_lanes_1(due.ids);
      turns := null;
      for place in 1..cardinality(locked.ids) loop
        turns[place] := due.turns[array_position(due.ids, locked.ids[place])];
      end loop;
      is_bounded := exists (select from halts) or exists (select from backfills where ended_at is null);
      claimed := postbud_lease_1(token, versions, leases_ms, locked.addresses, locked.rows, turns, null, null, due.probes,
        is_bounded, max_deliveries, now_at, null, null);
    end if;
  elsif is_crowded then
    -- What this turn has made due, it has not looked for: the next one does.
    has_found_due := true;
  end if;
  -- What a crash takes back is done again, under the same numbers: a lease, and the fan-out before it. A settlement waits for
  -- the disk, and what is before it in the log with it.
  if not is_durable and pg_current_xact_id_if_assigned() is not null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  -- The clock once more: whoever had a lane before has settled it before that, and not before `now`.
  return json_build_object('now', extract(epoch from now_at) * 1000,
    'clock', extract(epoch from coalesce(clock, clock_timestamp())) * 1000, 'fannedOut', fanned_out,
    'isAwaited', is_awaited, 'isMet', is_met, 'hasUnaddressed', has_unaddressed, 'isClockBack', is_clock_back,
    'hasRecovered', has_recovered, 'hasFoundDue', has_found_due, 'memory', case when is_memory_new then memory end, 'settled', settlement,
    'claimed', claimed);
end
$$;--> statement-breakpoint
-- The turn as the release before this one calls it, until it is gone.
create or replace function postbud_turn_3(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb, leaving jsonb,
  fence jsonb,
  token uuid, topics text[], subscribers text[], versions int[], leases_ms float8[], waits boolean[],
  max_lanes int, max_deliveries int, is_looking boolean,
  max_events int, is_careful boolean,
  clock timestamptz
) returns json language plpgsql as $$
declare
  answer json;
begin
  answer := postbud_turn_4(outcomes, delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms, delivered_in_ms,
    unfinished, leaving, fence, token,
    (select string_agg(topic || ' ' || subscriber, ',' order by turn)
      from unnest(topics, subscribers) with ordinality as asked(topic, subscriber, turn)), versions::text,
    leases_ms::text, waits::text, max_lanes, max_deliveries, is_looking, max_events, is_careful, null, clock);
  return (answer::jsonb || jsonb_build_object('fence', coalesce((answer -> 'memory')::jsonb, fence),
    'fenceAt', extract(epoch from clock_timestamp()) * 1000))::json;
end
$$;--> statement-breakpoint
create or replace function postbud_settle_alone_2(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  leaving jsonb
) returns int language sql as $$
  select postbud_settle_alone_3(outcomes, delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms,
    delivered_in_ms, unfinished, leaving)
$$;--> statement-breakpoint
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
  where topic = asked.topic and subscriber = asked.subscriber and lease_token is not null and next_look_at <= at;
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
$$;--> statement-breakpoint
-- Takes back the times that only a clock which was ahead explains: due times of lanes and their deliveries, of probes and
-- of operations under way, and the times of events that wait for fan-out. What waits by the right clock is left alone.
--
-- Returns what it took back, and keeps it in set_aside; null when no clock was ahead.
create or replace function postbud_take_back_times_1() returns jsonb language plpgsql as $$
declare
  now_at timestamptz;
  passed_at timestamptz;
  taken jsonb;
  events_taken int;
  lanes_taken int;
begin
  perform postbud_require_read_committed_1();
  perform pg_advisory_xact_lock(36952, 0);
  now_at := clock_timestamp();
  select at into passed_at from last_pass limit 1;
  -- Nobody holds a lane for longer than the longest lease, and a retry is due so long after its attempt ended.
  perform from lanes where next_look_at > now_at + interval '10 seconds' and next_look_at < 'infinity' order by id for update;
  with ahead as materialized (
    select id, home_id, slot, held_key, head, lease_token, next_look_at as due_at from lanes
    where next_look_at > now_at + interval '10 seconds' and next_look_at < 'infinity'
  ),
  head as materialized (
    select ahead.id, coalesce(home_id, ahead.id) as home, due_at, lease_token, next.*,
      greatest(attempted_at - now_at, interval '0') as ahead_by
    from ahead left join lateral (
      select next.position, next.next_attempt_at, deliveries.attempted_at
      from postbud_next_2(ahead.id, home_id, slot, held_key, ahead.head, 1) as next
        join deliveries on deliveries.lane_id = coalesce(home_id, ahead.id) and deliveries.position = next.position
    ) as next on true
  ),
  right_time as (
    select id, home, position, ahead_by, case
      when lease_token is not null then least(due_at, now_at + interval '80 seconds')
      else least(due_at, coalesce(next_attempt_at - ahead_by, now_at))
    end as due_at
    from head
  ),
  delivery as (
    update deliveries set next_attempt_at = deliveries.next_attempt_at - ahead_by
    from right_time
    where lane_id = home and deliveries.position = right_time.position and ahead_by > interval '1 second'
      and deliveries.next_attempt_at is not null
  ),
  lane as (
    update lanes set due_at = case when lanes.due_at is not null then right_time.due_at end,
      leased_until = case when lanes.lease_token is not null then right_time.due_at end
    from right_time where lanes.id = right_time.id and lanes.next_look_at > right_time.due_at
    returning 1
  )
  select count(*) into lanes_taken from lane;
  -- An event that waits for fan-out is recorded now: those that were recorded since come before it, as they were.
  with ahead as materialized (
    select ctid as id, event_id from awaiting_fan_out where created_at > now_at + interval '10 seconds'
  ),
  event as (
    update events set created_at = now_at from ahead where events.id = ahead.event_id
  ),
  marker as (
    update awaiting_fan_out set created_at = now_at where ctid = any (array(select id from ahead)) returning 1
  )
  select count(*) into events_taken from marker;
  update outages set next_probe_at = least(next_probe_at, now_at + interval '1 minute')
  where greatest(opened_at, probed_at) > now_at;
  -- Paces and patience: a step that comes early does no harm.
  update paced_replays set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update backfills set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update erasures set next_at = now_at where ended_at is null and next_at > now_at + interval '1 minute';
  update last_pass set at = now_at where at > now_at;
  update leases set until = now_at + interval '80 seconds' where until > now_at + interval '80 seconds';
  if not (passed_at > now_at + interval '10 seconds') and events_taken = 0 and lanes_taken = 0 then
    return null;
  end if;
  taken := jsonb_build_object('aheadBySeconds', extract(epoch from passed_at - now_at)::int, 'events', events_taken,
    'lanes', lanes_taken);
  insert into set_aside (at, kind, topic, found) values (now_at, 'clock_was_ahead', '', taken);
  return taken;
end
$$;--> statement-breakpoint
-- Of older releases, which this one does not run beside.
drop function if exists postbud_turn_1, postbud_turn_2, postbud_fan_out_1, postbud_fan_out_2, postbud_place_1,
  postbud_settle_1, postbud_settle_alone_1, postbud_settle_2, postbud_claim_1, postbud_claim_2, postbud_next_1;

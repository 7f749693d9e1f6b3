-- The core's tables in release 2.0. What goes well is written once and never changed; only a delivery with a story has a row that
-- changes.
--
--   events      what happened
--   awaiting    markers of events whose place is not certain yet
--   streams     one order each: a topic, or one of eight slots of a topic with ordering keys
--   audiences   whom the events of a stream are for, from a position on
--   log         the place of each event in its stream, for ever
--   lanes       a subscriber of a stream
--   journal     how far a lane has come, and who holds it: a row a claim, a row a settlement; the newest counts
--   exceptions  deliveries with a story: failed, parked, running for long, replayed, backfilled

create table events (
  id uuid primary key,
  topic text not null,
  payload jsonb not null,
  version smallint not null,
  created_at timestamptz not null check (created_at >= '1970-01-01 00:00:00Z' and created_at < '10000-01-01 00:00:00Z'),
  seq bigint not null generated always as identity,
  ordering_key text not null default '',
  producer text not null,
  dedupe_key text,
  correlation_id text,
  causation_id text,
  traceparent text,
  due_at timestamptz,
  erased_at timestamptz,
  subscribers text[] not null
);
create unique index events_dedupe on events (topic, dedupe_key) where dedupe_key is not null;

-- `emit` writes a row, and the turn that places its event deletes it. `number` is drawn under the emitter's lock.
create table awaiting (
  topic text not null,
  created_at timestamptz not null check (created_at >= '1970-01-01 00:00:00Z' and created_at < '10000-01-01 00:00:00Z'),
  seq bigint not null,
  number bigint not null generated always as identity,
  event_id uuid not null,
  ordering_key text not null,
  version smallint not null,
  bytes int not null,
  subscribers text[] not null,
  primary key (topic, created_at, seq)
);

-- `slot` is 0 for the events without an ordering key, else 1 to 8 (postbud_slot).
create table streams (
  id int primary key generated always as identity,
  topic text not null,
  slot smallint not null,
  unique (topic, slot)
);

-- From this position on, until the next row, the events of a stream are for these subscribers.
create table audiences (
  stream int not null,
  position bigint not null,
  subscribers text[] not null,
  primary key (stream, position)
);

-- Positions are dense in each stream: 1, 2, 3 and so on, in (created_at, seq) order. `bytes` is the size of the payload as text.
create table log (
  position bigint not null,
  event_id uuid not null,
  stream int not null,
  bytes int not null,
  version smallint not null,
  -- As long as an index can hold.
  ordering_key text not null check (octet_length(ordering_key) <= 1024),
  primary key (stream, position)
);
-- Ids are UUIDv7 and rows are inserted in event order, so block ranges find an event's place cheaply.
create index log_event on log using brin (event_id uuid_minmax_multi_ops) with (pages_per_range = 64, autosummarize = true);

-- Rows never change. Who writes to a lane's journal or exceptions holds its advisory lock (postbud_lock_lanes_2).
create table lanes (
  id int primary key generated always as identity,
  stream int not null,
  topic text not null,
  slot smallint not null,
  subscriber text not null,
  unique (stream, subscriber)
);
create index lanes_subscriber on lanes (subscriber, topic);

-- Heads never move back, so the newest row of a lane is the last by (head, number).
create table journal (
  lane int not null,
  number bigint not null,
  -- All deliveries up to here are dealt with, or are open exceptions.
  head bigint not null,
  at timestamptz not null,
  -- Of the relay that holds the lane, or that settled it last.
  token uuid,
  -- Until when the lane is held; null where it is free.
  leased_until timestamptz,
  -- While it is held: the first delivery that its relay may have begun, and the last.
  first_claimed bigint,
  claimed_to bigint,
  -- Up to here deliveries are handed over one at a time, because a relay died while it delivered them.
  careful_to bigint,
  -- How many handlers may run at once under this lease.
  handlers smallint,
  -- Of a settlement: from `first` to `head`, how long each delivery's handler took, and how long before `at` it ended, in
  -- milliseconds. Null for those that are exceptions, or for others.
  first bigint,
  took_ms int[],
  ago_ms int[],
  -- Attempts in this settlement, those of exceptions too.
  delivered int,
  failed int,
  dead_lettered int,
  -- Whether somebody answered one of them, if only with an error.
  is_answered boolean,
  primary key (lane, head, number)
);

alter table journal alter column took_ms set storage main, alter column ago_ms set storage main;

create table exceptions (
  lane int not null,
  position bigint not null,
  event_id uuid not null,
  ordering_key text not null,
  state delivery_state not null,
  -- While it is open it holds back what comes after it: in a stream without keys all, else its key. A dead letter that is open
  -- halts them.
  is_open boolean not null,
  -- Whether the relay that holds the lane has it in hand, for longer than one settlement.
  is_held boolean not null default false,
  -- When a relay has to look: of the first open one of its key. Null of those behind it.
  due_at timestamptz,
  attempts smallint not null default 0,
  attempted_at timestamptz,
  duration_ms int,
  next_attempt_at timestamptz,
  delivered_at timestamptz,
  dead_lettered_at timestamptz,
  dismissed_at timestamptz,
  replayed_at timestamptz,
  replays smallint not null default 0,
  backfilled boolean not null default false,
  error_group text,
  attempt_log jsonb,
  primary key (lane, position),
  check ((state = 'delivered') = (delivered_at is not null)
    and (state = 'dead_lettered') = (coalesce(dead_lettered_at, dismissed_at) is not null)
    and (is_open or due_at is null and not is_held))
);
create index exceptions_open on exceptions (lane, ordering_key, position) where is_open;
create index exceptions_due on exceptions (lane, due_at) where due_at is not null;
create index exceptions_dead_letters on exceptions (dead_lettered_at, lane, position) where dead_lettered_at is not null;
create index exceptions_errors on exceptions (error_group, dead_lettered_at, lane, position) where error_group is not null;

-- How far the cron has read each lane's journal, and what it found: totals never decrease, also after a prune.
create table lane_totals (
  lane int primary key,
  head bigint not null,
  number bigint not null,
  delivered bigint not null default 0,
  failed bigint not null default 0,
  dead_lettered bigint not null default 0,
  last_delivered_at timestamptz,
  last_failed_at timestamptz
);

-- One record for each event and subscriber.
create view deliveries as
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
    join log on log.stream = lane.stream
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

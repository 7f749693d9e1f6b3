-- The core of release 2.0: what goes well is written once and never changed, and only a delivery with a story has a row that changes.
alter table journal rename to stand_in_events;--> statement-breakpoint
alter table stand_in_events rename constraint journal_event_id_subscriber_pk to stand_in_events_event_id_subscriber_pk;--> statement-breakpoint
alter table deliveries rename to deliveries_of_1;--> statement-breakpoint
alter sequence lanes_id_seq rename to lanes_of_1_id_seq;--> statement-breakpoint
alter table lanes rename to lanes_of_1;--> statement-breakpoint
alter table lanes_of_1 rename constraint lanes_state to lanes_of_1_state;--> statement-breakpoint
alter table backfills rename to backfills_of_1;--> statement-breakpoint
alter table error_groups drop column dead_lettered;--> statement-breakpoint
alter table throughput_minutes drop column first_attempt;--> statement-breakpoint
alter table outages drop column began_at, drop column recovered_at;--> statement-breakpoint
alter table subscriber_limits drop column held;--> statement-breakpoint
alter table paced_replays drop constraint paced_replays_numbers, drop column passed_over, drop column reached_position,
  drop column reached_lane, add constraint paced_replays_numbers check (put_back >= 0);--> statement-breakpoint
alter index backfills_open rename to backfills_of_1_open;--> statement-breakpoint
alter index backfills_requested rename to backfills_of_1_requested;--> statement-breakpoint
alter table backfills_of_1 rename constraint backfills_pkey to backfills_of_1_pkey;--> statement-breakpoint
alter table backfills_of_1 rename constraint backfills_pace to backfills_of_1_pace;--> statement-breakpoint
alter table backfills_of_1 rename constraint backfills_numbers to backfills_of_1_numbers;--> statement-breakpoint
CREATE TABLE "audiences" (
	"stream" integer NOT NULL,
	"position" bigint NOT NULL,
	"subscribers" text[] NOT NULL,
	CONSTRAINT "audiences_stream_position_pk" PRIMARY KEY("stream","position")
);--> statement-breakpoint
CREATE TABLE "awaiting" (
	"topic" text NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"seq" bigint NOT NULL,
	"number" bigint GENERATED ALWAYS AS IDENTITY (sequence name "awaiting_number_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"event_id" uuid NOT NULL,
	"ordering_key" text NOT NULL,
	"version" smallint NOT NULL,
	"bytes" integer NOT NULL,
	"subscribers" text[] NOT NULL,
	CONSTRAINT "awaiting_topic_created_at_seq_pk" PRIMARY KEY("topic","created_at","seq"),
	CONSTRAINT "awaiting_created_at" CHECK (created_at >= '1970-01-01 00:00:00Z' and created_at < '10000-01-01 00:00:00Z')
);--> statement-breakpoint
CREATE TABLE "exceptions" (
	"lane" integer NOT NULL,
	"position" bigint NOT NULL,
	"event_id" uuid NOT NULL,
	"ordering_key" text NOT NULL,
	"state" "delivery_state" NOT NULL,
	"is_open" boolean NOT NULL,
	"is_held" boolean DEFAULT false NOT NULL,
	"due_at" timestamp with time zone,
	"attempts" smallint DEFAULT 0 NOT NULL,
	"attempted_at" timestamp with time zone,
	"duration_ms" integer,
	"next_attempt_at" timestamp with time zone,
	"delivered_at" timestamp with time zone,
	"dead_lettered_at" timestamp with time zone,
	"dismissed_at" timestamp with time zone,
	"replayed_at" timestamp with time zone,
	"replays" smallint DEFAULT 0 NOT NULL,
	"backfilled" boolean DEFAULT false NOT NULL,
	"error_group" text,
	"attempt_log" jsonb,
	CONSTRAINT "exceptions_lane_position_pk" PRIMARY KEY("lane","position"),
	CONSTRAINT "exceptions_state" CHECK ((state = 'delivered') = (delivered_at is not null) and (state = 'dead_lettered') = (coalesce(dead_lettered_at, dismissed_at) is not null) and (is_open or due_at is null and not is_held))
);--> statement-breakpoint
CREATE TABLE "journal" (
	"lane" integer NOT NULL,
	"number" bigint NOT NULL,
	"head" bigint NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"token" uuid,
	"leased_until" timestamp with time zone,
	"first_claimed" bigint,
	"claimed_to" bigint,
	"careful_to" bigint,
	"handlers" smallint,
	"first" bigint,
	"took_ms" integer[],
	"ago_ms" integer[],
	"delivered" integer,
	"failed" integer,
	"dead_lettered" integer,
	"is_answered" boolean,
	CONSTRAINT "journal_lane_head_number_pk" PRIMARY KEY("lane","head","number")
);--> statement-breakpoint
CREATE TABLE "lane_totals" (
	"lane" integer PRIMARY KEY NOT NULL,
	"head" bigint NOT NULL,
	"number" bigint NOT NULL,
	"delivered" bigint DEFAULT 0 NOT NULL,
	"failed" bigint DEFAULT 0 NOT NULL,
	"dead_lettered" bigint DEFAULT 0 NOT NULL,
	"last_delivered_at" timestamp with time zone,
	"last_failed_at" timestamp with time zone
);--> statement-breakpoint
CREATE TABLE "lanes" (
	"id" integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "lanes_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1),
	"stream" integer NOT NULL,
	"topic" text NOT NULL,
	"slot" smallint NOT NULL,
	"subscriber" text NOT NULL
);--> statement-breakpoint
CREATE TABLE "log" (
	"position" bigint NOT NULL,
	"event_id" uuid,
	"stream" integer NOT NULL,
	"bytes" integer NOT NULL,
	"version" smallint NOT NULL,
	"ordering_key" text NOT NULL,
	CONSTRAINT "log_stream_position_pk" PRIMARY KEY("stream","position"),
	CONSTRAINT "log_ordering_key" CHECK (octet_length(ordering_key) <= 1024)
);--> statement-breakpoint
CREATE TABLE "streams" (
	"id" integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "streams_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1),
	"topic" text NOT NULL,
	"slot" smallint NOT NULL
);--> statement-breakpoint
CREATE INDEX "exceptions_open" ON "exceptions" USING btree ("lane","ordering_key","position") WHERE is_open;--> statement-breakpoint
CREATE INDEX "exceptions_blocking" ON "exceptions" USING btree ("lane","state","ordering_key","position") WHERE is_open and state in ('failing', 'dead_lettered');--> statement-breakpoint
CREATE INDEX "exceptions_due" ON "exceptions" USING btree ("lane","due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "exceptions_dead_letters" ON "exceptions" USING btree ("dead_lettered_at","lane","position") WHERE dead_lettered_at is not null;--> statement-breakpoint
CREATE INDEX "exceptions_errors" ON "exceptions" USING btree ("error_group","dead_lettered_at","lane","position") WHERE error_group is not null;--> statement-breakpoint
CREATE INDEX "exceptions_delivered" ON "exceptions" USING btree ("delivered_at") WHERE delivered_at is not null;--> statement-breakpoint
CREATE INDEX "exceptions_replays" ON "exceptions" USING btree ("replayed_at") WHERE replayed_at is not null;--> statement-breakpoint
CREATE INDEX "exceptions_dismissed" ON "exceptions" USING btree ("dismissed_at") WHERE dismissed_at is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "lanes_stream_subscriber" ON "lanes" USING btree ("stream","subscriber");--> statement-breakpoint
CREATE INDEX "lanes_subscriber" ON "lanes" USING btree ("subscriber","topic");--> statement-breakpoint
CREATE INDEX "log_event" ON "log" USING brin ("event_id" uuid_minmax_multi_ops) WITH (pages_per_range=64,autosummarize=true);--> statement-breakpoint
CREATE INDEX "log_keys" ON "log" USING btree ("stream","ordering_key","position") WHERE ordering_key <> '';--> statement-breakpoint
CREATE UNIQUE INDEX "streams_topic_slot" ON "streams" USING btree ("topic","slot");--> statement-breakpoint
CREATE INDEX "events_seq" ON "events" USING brin ("seq" int8_minmax_multi_ops) WITH (pages_per_range=64,autosummarize=true);--> statement-breakpoint
-- The index of identifiers is built anew, by `seq`: the positions that it was by are gone.
truncate event_blocks, identifiers, indexed_positions;--> statement-breakpoint
alter table event_blocks rename from_position to from_seq;--> statement-breakpoint
alter table identifiers rename from_position to from_seq;--> statement-breakpoint
alter table identifiers rename constraint identifiers_bucket_from_position_pk to identifiers_bucket_from_seq_pk;--> statement-breakpoint
alter table indexed_positions rename to indexed_events;--> statement-breakpoint
alter table indexed_events rename from_position to from_seq;--> statement-breakpoint
alter table indexed_events rename to_position to to_seq;--> statement-breakpoint
alter table indexed_events rename constraint indexed_positions_pkey to indexed_events_pkey;--> statement-breakpoint
alter table indexed_events rename constraint indexed_positions_only_row to indexed_events_only_row;--> statement-breakpoint
alter table indexed_events rename constraint indexed_positions_range to indexed_events_range;--> statement-breakpoint
alter table indexed_events add column certain_to bigint default 0 not null, add column certain_next bigint default 0 not null,
  add column emitting text[] default '{}' not null;--> statement-breakpoint
CREATE TABLE "backfills" (
	"id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"since" timestamp with time zone NOT NULL,
	"requested_at" timestamp with time zone NOT NULL,
	"requested_by" text NOT NULL,
	"reason" text,
	"per_minute" integer,
	"matched" bigint NOT NULL,
	"written" bigint DEFAULT 0 NOT NULL,
	"reached" uuid,
	"next_at" timestamp with time zone NOT NULL,
	"begun_at" timestamp with time zone,
	"ended_at" timestamp with time zone,
	CONSTRAINT "backfills_pace" CHECK (per_minute > 0),
	CONSTRAINT "backfills_numbers" CHECK (matched >= 0 and written >= 0)
);--> statement-breakpoint
CREATE UNIQUE INDEX "backfills_open" ON "backfills" USING btree ("topic","subscriber") WHERE ended_at is null;--> statement-breakpoint
CREATE INDEX "backfills_requested" ON "backfills" USING btree ("requested_at","id");--> statement-breakpoint
-- Takes over what release 1.x kept: each delivery keeps its state, its attempts and its order. Everything that was placed by it comes
-- before what still waits for its place.
do $$
begin
  if not exists (select from events) then
    return;
  end if;
  set local enable_nestloop = off;
  insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, bytes, subscribers)
  select marker.topic, marker.created_at, marker.seq, event_id, marker.ordering_key, version, payload_bytes, marker.subscribers
  from awaiting_fan_out as marker join events on events.id = event_id order by number;
  -- Whom an event was for is said by its deliveries: subscribers may have been renamed and retired since. A backfill's delivery has a
  -- story, and so has a row of its own.
  create temporary table placed on commit drop as
  select events.id as event_id, events.topic, events.created_at, known.slot, known.ordering_key, events.version,
    coalesce(of_lanes.bytes, octet_length(events.payload::text)) as bytes, coalesce(of_lanes.subscribers, '{}') as subscribers,
    row_number() over (partition by events.topic, known.slot order by events.created_at, events.seq) as position
  from events left join (
      select event_id, max(coalesce(lane.slot, 0)) as slot, max(lane_key) as lane_key, max(payload_bytes) as bytes,
        array_agg(lane.subscriber order by lane.subscriber) filter (where not backfilled) as subscribers
      from deliveries_of_1 join lanes_of_1 as lane on lane.id = lane_id group by event_id
    ) as of_lanes on of_lanes.event_id = events.id, lateral (
      select coalesce(of_lanes.slot, case when events.ordering_key = '' then 0 else postbud_slot(events.ordering_key) end)::smallint as slot,
        case when of_lanes.slot > 0 then of_lanes.lane_key when of_lanes.slot = 0 then '' else events.ordering_key end as ordering_key
    ) as known
  where not exists (select from awaiting_fan_out as marker where marker.event_id = events.id);
  insert into streams (topic, slot)
  select topic, slot from home_lanes union select topic, slot from placed order by 1, 2;
  insert into log (position, event_id, stream, bytes, version, ordering_key)
  select position, event_id, streams.id, bytes, version, ordering_key from placed join streams using (topic, slot) order by created_at;
  insert into audiences (stream, position, subscribers)
  select stream, position, subscribers
  from (
    select streams.id as stream, position, subscribers, lag(subscribers) over (partition by streams.id order by position) as before
    from placed join streams using (topic, slot)
  ) as place
  where before is distinct from subscribers;
  insert into lanes (stream, topic, slot, subscriber)
  select streams.id, topic, slot, subscriber from home_lanes join streams using (topic, slot) order by 1, subscriber;
  create temporary table taken_over on commit drop as
  select known.*, went_well and max(delivered_at) filter (where went_well) over (partition by new_lane, new_position / 500)
      < delivered_at + interval '20 days' as is_in_journal
  from (
    select lanes.id as new_lane, log.position as new_position, log.ordering_key, was.*,
      halts.position is not null and was.state = 'dead_lettered' and was.dead_lettered_at is not null as is_halted,
      was.state = 'delivered' and attempts = 1 and replays = 0 and not backfilled and attempt_log is null
        and duration_ms is not null and attempted_at is not null as went_well,
      was.state = 'pending' and attempts = 0 and replays = 0 and not backfilled and attempt_log is null as is_untouched
    from deliveries_of_1 as was join home_lanes on home_lanes.lane_id = was.lane_id join streams using (topic, slot)
      join lanes on lanes.stream = streams.id and lanes.subscriber = home_lanes.subscriber
      join placed on placed.event_id = was.event_id
      join log on log.stream = streams.id and log.position = placed.position
      left join halts on halts.lane_id = was.lane_id and halts.position = was.position
  ) as known;
  -- The head passes all but what nobody has touched, and what it passes of that is parked.
  create temporary table passed on commit drop as
  select lanes.id as lane, lanes.stream, coalesce(max(new_position) filter (where not is_untouched), min(new_position) - 1,
      (select max(position) from log where log.stream = lanes.stream), 0) as head,
    max(new_position) filter (where taken_over.position <= was.careful_to and not is_untouched) as careful_to
  from lanes join home_lanes using (topic, slot, subscriber) left join lanes_of_1 as was on was.id = lane_id
    left join taken_over on new_lane = lanes.id
  group by lanes.id;
  insert into exceptions (lane, position, event_id, ordering_key, state, is_open, attempts, attempted_at, duration_ms, next_attempt_at,
    delivered_at, dead_lettered_at, dismissed_at, replayed_at, replays, backfilled, error_group, attempt_log)
  select new_lane, new_position, event_id, ordering_key, state, state in ('pending', 'failing') or is_halted, attempts, attempted_at,
    duration_ms, next_attempt_at, delivered_at, dead_lettered_at, dismissed_at, replayed_at, replays, backfilled, error_group, attempt_log
  from taken_over join passed on lane = new_lane
  where not coalesce(is_in_journal, false) and (not is_untouched or new_position <= head) order by 1, 2;
  update exceptions set due_at = coalesce(exceptions.next_attempt_at, clock_timestamp())
  from (
    select distinct on (lane, ordering_key) lane, position, state from exceptions where is_open order by lane, ordering_key, position
  ) as first
  where first.lane = exceptions.lane and first.position = exceptions.position and first.state in ('pending', 'failing');
  -- A settlement for each 500 places of a lane at most. Its times are whole milliseconds, of 24 days at most, before its own.
  insert into journal (lane, number, head, at, first, took_ms, ago_ms, delivered, is_answered)
  select lane, 0, max(position), max(last_at), min(position), array_agg(duration_ms order by position),
    array_agg(round(extract(epoch from last_at - ended_at) * 1000)::int order by position), count(ended_at), true
  from (
    select passed.lane, log.position, duration_ms, delivered_at as ended_at,
      max(delivered_at) over (partition by passed.lane, log.position / 500) as last_at
    from passed join log on log.stream = passed.stream and log.position <= passed.head
      left join taken_over on new_lane = passed.lane and new_position = log.position and is_in_journal
  ) as place
  group by lane, position / 500 having count(ended_at) > 0;
  insert into journal (lane, number, head, at, careful_to) select lane, 1, head, clock_timestamp(), careful_to from passed;
  insert into lane_totals (lane, head, number) select lane, head, 1 from passed;
  update lane_totals set delivered = total.delivered, failed = total.failed, dead_lettered = total.dead_lettered,
    last_delivered_at = total.last_delivered_at, last_failed_at = total.last_failed_at
  from (
    select (select min(id) from lanes where lanes.topic = backlog.topic and lanes.subscriber = backlog.subscriber) as lane,
      sum(delivered_total) as delivered, sum(failed_total) as failed, sum(dead_lettered_total) as dead_lettered,
      max(last_delivered_at) as last_delivered_at, max(last_failed_at) as last_failed_at
    from backlog where subscriber <> '' group by topic, subscriber
  ) as total
  where total.lane = lane_totals.lane;
end
$$;--> statement-breakpoint
insert into backfills (id, topic, subscriber, since, requested_at, requested_by, reason, per_minute, matched, written, next_at, begun_at, ended_at)
select id, topic, subscriber, since, requested_at, requested_by, reason, per_minute, matched, written, next_at, begun_at, ended_at
from backfills_of_1 where renamed_from is null;--> statement-breakpoint
drop table backfills_of_1;--> statement-breakpoint
drop trigger deferred_in_transaction on awaiting_fan_out;--> statement-breakpoint
drop trigger in_transaction on awaiting_fan_out;--> statement-breakpoint
create or replace trigger deferred_in_transaction before insert on awaiting
for each row when (current_setting('postbud.first_write', true) = statement_timestamp()::text)
execute function postbud_require_transaction_1();--> statement-breakpoint
create constraint trigger in_transaction after insert on awaiting deferrable initially deferred
for each row when (current_setting('postbud.first_write', true) = statement_timestamp()::text)
execute function postbud_require_transaction_1();--> statement-breakpoint
alter table journal alter column took_ms set storage main, alter column ago_ms set storage main;--> statement-breakpoint
alter table awaiting set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);--> statement-breakpoint
alter table events drop column state, drop column open, drop column failing, drop column dead_lettered;--> statement-breakpoint
alter table events set (fillfactor = 100);--> statement-breakpoint
drop table deliveries_of_1, lanes_of_1, leases, reserved_positions, home_lanes, backlog, throughput, halts, absences, awaiting_fan_out,
  planned_replays cascade;--> statement-breakpoint
drop sequence delivery_positions;--> statement-breakpoint
drop function if exists postbud_event_state;--> statement-breakpoint
drop type if exists postbud_change_1, postbud_outcome_2 cascade;

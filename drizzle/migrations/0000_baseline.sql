CREATE TYPE "public"."delivery_state" AS ENUM('delivered', 'pending', 'failing', 'dead_lettered');--> statement-breakpoint
CREATE SEQUENCE "public"."delivery_positions" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
CREATE TABLE "absences" (
	"subscriber" text NOT NULL,
	"kind" text NOT NULL,
	"lane_id" bigint NOT NULL,
	"lane_key" text NOT NULL,
	"failures" integer NOT NULL,
	"began_at" timestamp with time zone,
	CONSTRAINT "absences_subscriber_kind_lane_id_lane_key_pk" PRIMARY KEY("subscriber","kind","lane_id","lane_key")
);
--> statement-breakpoint
CREATE TABLE "alerts" (
	"incident_id" uuid NOT NULL,
	"revision" integer NOT NULL,
	"channel" text NOT NULL,
	"due_at" timestamp with time zone,
	"attempts" smallint DEFAULT 0 NOT NULL,
	"attempted_at" timestamp with time zone,
	"sent_at" timestamp with time zone,
	"last_error" text,
	CONSTRAINT "alerts_incident_id_revision_channel_pk" PRIMARY KEY("incident_id","revision","channel"),
	CONSTRAINT "alerts_sent" CHECK (sent_at is null or due_at is null)
);
--> statement-breakpoint
CREATE TABLE "audit_log" (
	"event_id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"producer" text NOT NULL,
	"occurred_at" timestamp with time zone NOT NULL,
	"recorded_at" timestamp with time zone DEFAULT now() NOT NULL,
	"correlation_id" text,
	"causation_id" text,
	"payload" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "awaiting_fan_out" (
	"topic" text NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"seq" bigint NOT NULL,
	"event_id" uuid NOT NULL,
	"ordering_key" text NOT NULL,
	"open" smallint NOT NULL,
	"payload_bytes" integer NOT NULL,
	"subscribers" text[] NOT NULL,
	"number" bigint GENERATED ALWAYS AS IDENTITY (sequence name "awaiting_fan_out_number_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	CONSTRAINT "awaiting_fan_out_topic_created_at_seq_pk" PRIMARY KEY("topic","created_at","seq"),
	CONSTRAINT "awaiting_fan_out_created_at" CHECK (created_at >= '1970-01-01 00:00:00Z' and created_at < '10000-01-01 00:00:00Z')
);
--> statement-breakpoint
CREATE TABLE "backfills" (
	"id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"since" timestamp with time zone NOT NULL,
	"renamed_from" text,
	"requested_at" timestamp with time zone NOT NULL,
	"requested_by" text NOT NULL,
	"reason" text,
	"per_minute" integer,
	"matched" bigint NOT NULL,
	"written" bigint DEFAULT 0 NOT NULL,
	"front" bigint NOT NULL,
	"until" bigint NOT NULL,
	"next_at" timestamp with time zone NOT NULL,
	"begun_at" timestamp with time zone,
	"ended_at" timestamp with time zone,
	CONSTRAINT "backfills_pace" CHECK (per_minute > 0),
	CONSTRAINT "backfills_numbers" CHECK (matched >= 0 and written >= 0)
);
--> statement-breakpoint
CREATE TABLE "backlog" (
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"shard" bigint NOT NULL,
	"pending" bigint NOT NULL,
	"failing" bigint NOT NULL,
	"dead_lettered" bigint NOT NULL,
	"last_delivered_at" timestamp with time zone,
	"last_failed_at" timestamp with time zone,
	"delivered_total" bigint DEFAULT 0 NOT NULL,
	"failed_total" bigint DEFAULT 0 NOT NULL,
	"dead_lettered_total" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "backlog_topic_subscriber_shard_pk" PRIMARY KEY("topic","subscriber","shard")
);
--> statement-breakpoint
CREATE TABLE "catalog_topics" (
	"topic" text PRIMARY KEY NOT NULL,
	"producer" text NOT NULL,
	"subscribers" text[] NOT NULL,
	"version" smallint NOT NULL,
	"ordered_by" text,
	"schemas" jsonb NOT NULL,
	CONSTRAINT "catalog_topics_version" CHECK (version > 0 and schemas ? version::text)
);
--> statement-breakpoint
CREATE TABLE "deliveries" (
	"lane_id" bigint NOT NULL,
	"position" bigint NOT NULL,
	"event_id" uuid NOT NULL,
	"lane_key" text,
	"payload_bytes" integer NOT NULL,
	"state" "delivery_state" DEFAULT 'pending' NOT NULL,
	"attempts" smallint DEFAULT 0 NOT NULL,
	"attempted_at" timestamp with time zone,
	"duration_ms" integer,
	"next_attempt_at" timestamp with time zone,
	"delivered_at" timestamp with time zone,
	"dead_lettered_at" timestamp with time zone,
	"replayed_at" timestamp with time zone,
	"replays" smallint DEFAULT 0 NOT NULL,
	"error_group" text,
	"dismissed_at" timestamp with time zone,
	"backfilled" boolean DEFAULT false NOT NULL,
	"attempt_log" jsonb,
	CONSTRAINT "deliveries_lane_id_position_pk" PRIMARY KEY("lane_id","position"),
	CONSTRAINT "deliveries_state" CHECK ((state = 'delivered') = (delivered_at is not null) and (state = 'dead_lettered') = (coalesce(dead_lettered_at, dismissed_at) is not null))
);
--> statement-breakpoint
CREATE TABLE "erased_events" (
	"erasure_id" uuid NOT NULL,
	"event_id" uuid NOT NULL,
	"texts" text[] DEFAULT '{}' NOT NULL,
	CONSTRAINT "erased_events_erasure_id_event_id_pk" PRIMARY KEY("erasure_id","event_id")
);
--> statement-breakpoint
CREATE TABLE "erasures" (
	"id" uuid PRIMARY KEY NOT NULL,
	"requested_at" timestamp with time zone NOT NULL,
	"requested_by" text NOT NULL,
	"reason" text NOT NULL,
	"subjects" text[] NOT NULL,
	"is_exact" boolean NOT NULL,
	"names" jsonb,
	"names_before" jsonb,
	"state" text DEFAULT 'waiting' NOT NULL,
	"producers" text[] NOT NULL,
	"leases" uuid[] DEFAULT '{}' NOT NULL,
	"last_id" uuid,
	"reached_id" uuid DEFAULT '00000000-0000-0000-0000-000000000000' NOT NULL,
	"searched" bigint DEFAULT 0 NOT NULL,
	"found" bigint DEFAULT 0 NOT NULL,
	"events" bigint DEFAULT 0 NOT NULL,
	"deliveries" bigint DEFAULT 0 NOT NULL,
	"notifications" bigint DEFAULT 0 NOT NULL,
	"texts" bigint DEFAULT 0 NOT NULL,
	"keys_kept" bigint DEFAULT 0 NOT NULL,
	"next_at" timestamp with time zone NOT NULL,
	"ended_at" timestamp with time zone,
	CONSTRAINT "erasures_state" CHECK (state in ('waiting', 'gathering', 'finding', 'erasing', 'settling', 'checking', 'ended')
        and (state = 'ended') = (ended_at is not null) and (ended_at is null or names is null and names_before is null))
);
--> statement-breakpoint
CREATE TABLE "error_groups" (
	"key" text PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"kind" text NOT NULL,
	"message" text NOT NULL,
	"dead_lettered" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "event_blocks" (
	"from_position" bigint PRIMARY KEY NOT NULL,
	"event_ids" "bytea" NOT NULL,
	"trimmed_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "events" (
	"id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"payload" jsonb NOT NULL,
	"version" smallint NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"seq" bigint GENERATED ALWAYS AS IDENTITY (sequence name "events_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"ordering_key" text DEFAULT '' NOT NULL,
	"producer" text NOT NULL,
	"dedupe_key" text,
	"correlation_id" text,
	"causation_id" text,
	"traceparent" text,
	"erased_at" timestamp with time zone,
	"subscribers" text[] NOT NULL,
	"open" smallint NOT NULL,
	"failing" smallint DEFAULT 0 NOT NULL,
	"dead_lettered" smallint DEFAULT 0 NOT NULL,
	"state" "delivery_state" GENERATED ALWAYS AS (case when dead_lettered > 0 then 'dead_lettered'::delivery_state when failing > 0 then 'failing'::delivery_state when open > 0 then 'pending'::delivery_state else 'delivered'::delivery_state end) STORED NOT NULL,
	CONSTRAINT "events_counters" CHECK (open >= 0 and failing between 0 and open and dead_lettered >= 0),
	CONSTRAINT "events_created_at" CHECK (created_at >= '1970-01-01 00:00:00Z' and created_at < '10000-01-01 00:00:00Z')
);
--> statement-breakpoint
CREATE TABLE "halts" (
	"lane_id" bigint NOT NULL,
	"position" bigint NOT NULL,
	"lane_key" text,
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"halted_at" timestamp with time zone NOT NULL,
	CONSTRAINT "halts_lane_id_position_pk" PRIMARY KEY("lane_id","position")
);
--> statement-breakpoint
CREATE TABLE "home_lanes" (
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"slot" smallint NOT NULL,
	"lane_id" bigint NOT NULL,
	CONSTRAINT "home_lanes_topic_subscriber_slot_pk" PRIMARY KEY("topic","subscriber","slot")
);
--> statement-breakpoint
CREATE TABLE "identifiers" (
	"bucket" smallint NOT NULL,
	"from_position" bigint NOT NULL,
	"hashes" integer[] NOT NULL,
	"ends" integer[] NOT NULL,
	"ordinals" smallint[] NOT NULL,
	CONSTRAINT "identifiers_bucket_from_position_pk" PRIMARY KEY("bucket","from_position")
);
--> statement-breakpoint
CREATE TABLE "identity_subjects" (
	"subject" text PRIMARY KEY NOT NULL,
	"first_event_id" uuid NOT NULL,
	"first_seen_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "incidents" (
	"id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"kind" text NOT NULL,
	"message" text NOT NULL,
	"state" text NOT NULL,
	"revision" integer DEFAULT 1 NOT NULL,
	"change" text NOT NULL,
	"opened_at" timestamp with time zone NOT NULL,
	"changed_at" timestamp with time zone NOT NULL,
	"closed_at" timestamp with time zone,
	"blocked_lanes" integer NOT NULL,
	"halted_lanes" integer DEFAULT 0 NOT NULL,
	"waiting" bigint NOT NULL,
	"owed" bigint NOT NULL,
	"acknowledged_at" timestamp with time zone,
	"acknowledged_by" text,
	"acknowledged_note" text,
	CONSTRAINT "incidents_state" CHECK (state in ('happening', 'owed', 'closed') and (state = 'closed') = (closed_at is not null)),
	CONSTRAINT "incidents_change" CHECK (change in ('opened', 'changed', 'closed')),
	CONSTRAINT "incidents_numbers" CHECK (revision > 0 and blocked_lanes >= 0 and waiting >= 0 and owed >= 0),
	CONSTRAINT "incidents_acknowledged" CHECK ((acknowledged_at is null) = (acknowledged_by is null))
);
--> statement-breakpoint
CREATE TABLE "indexed_positions" (
	"is_only_row" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"from_position" bigint NOT NULL,
	"to_position" bigint NOT NULL,
	"rule" smallint DEFAULT 1 NOT NULL,
	CONSTRAINT "indexed_positions_only_row" CHECK (is_only_row),
	CONSTRAINT "indexed_positions_range" CHECK (0 <= from_position and from_position <= to_position)
);
--> statement-breakpoint
CREATE TABLE "journal" (
	"event_id" uuid NOT NULL,
	"subscriber" text NOT NULL,
	"topic" text NOT NULL,
	"recorded_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "journal_event_id_subscriber_pk" PRIMARY KEY("event_id","subscriber")
);
--> statement-breakpoint
CREATE TABLE "lanes" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "lanes_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"ordering_key" text,
	"slot" smallint,
	"held_key" text DEFAULT '' NOT NULL,
	"home_id" bigint,
	"head" bigint DEFAULT 0 NOT NULL,
	"tail" bigint NOT NULL,
	"careful_to" bigint DEFAULT 0 NOT NULL,
	"waits_for_version" smallint,
	"held_version" smallint,
	"due_at" timestamp with time zone,
	"lease_token" uuid,
	"leased_until" timestamp with time zone,
	CONSTRAINT "lanes_state" CHECK (head <= tail and (lease_token is null or coalesce(due_at, leased_until) is not null))
);
--> statement-breakpoint
CREATE TABLE "last_pass" (
	"at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "leases" (
	"until" timestamp with time zone NOT NULL,
	"lanes" bigint[] NOT NULL
);
--> statement-breakpoint
CREATE TABLE "notifications" (
	"event_id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"email" text,
	"subject" text NOT NULL,
	"recorded_at" timestamp with time zone DEFAULT now() NOT NULL,
	"mail_begun_at" timestamp with time zone,
	"mailed_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "operator_actions" (
	"id" uuid PRIMARY KEY NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"operator" text NOT NULL,
	"action" text NOT NULL,
	"topic" text,
	"subscriber" text,
	"delivery_id" text,
	"event_id" uuid,
	"reason" text,
	"incident_id" uuid,
	"replay_id" uuid,
	"erasure_id" uuid,
	CONSTRAINT "operator_actions_action" CHECK (action ~ '^[a-z][a-z_]{0,39}$')
);
--> statement-breakpoint
CREATE TABLE "outages" (
	"subscriber" text PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"message" text NOT NULL,
	"opened_at" timestamp with time zone NOT NULL,
	"began_at" timestamp with time zone,
	"probes" integer DEFAULT 0 NOT NULL,
	"probed_at" timestamp with time zone,
	"next_probe_at" timestamp with time zone NOT NULL,
	"recovered_at" timestamp with time zone,
	CONSTRAINT "outages_probes" CHECK (probes >= 0)
);
--> statement-breakpoint
CREATE TABLE "paced_replays" (
	"replay_id" uuid PRIMARY KEY NOT NULL,
	"per_minute" integer NOT NULL,
	"planned" integer NOT NULL,
	"put_back" integer DEFAULT 0 NOT NULL,
	"passed_over" integer DEFAULT 0 NOT NULL,
	"reached_position" bigint DEFAULT 0 NOT NULL,
	"reached_lane" bigint DEFAULT 0 NOT NULL,
	"next_at" timestamp with time zone NOT NULL,
	"ended_at" timestamp with time zone,
	CONSTRAINT "paced_replays_pace" CHECK (per_minute > 0),
	CONSTRAINT "paced_replays_numbers" CHECK (put_back >= 0 and passed_over >= 0 and put_back + passed_over <= planned)
);
--> statement-breakpoint
CREATE TABLE "pauses" (
	"subscriber" text NOT NULL,
	"topic" text DEFAULT '' NOT NULL,
	"paused_at" timestamp with time zone NOT NULL,
	"paused_by" text NOT NULL,
	"reason" text NOT NULL,
	CONSTRAINT "pauses_subscriber_topic_pk" PRIMARY KEY("subscriber","topic")
);
--> statement-breakpoint
CREATE TABLE "payment_intents" (
	"id" text PRIMARY KEY NOT NULL,
	"booking_id" text NOT NULL,
	"provider" text NOT NULL,
	"amount_minor" bigint NOT NULL,
	"currency" text NOT NULL,
	"state" text DEFAULT 'created' NOT NULL,
	"parts" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"changed_at" timestamp with time zone DEFAULT now() NOT NULL,
	"ask_at" timestamp with time zone DEFAULT now() + interval '15 minutes',
	CONSTRAINT "payment_intents_amount" CHECK (amount_minor >= 0),
	CONSTRAINT "payment_intents_state" CHECK (state in ('created', 'captured', 'failed', 'refunded'))
);
--> statement-breakpoint
CREATE TABLE "planned_replays" (
	"replay_id" uuid NOT NULL,
	"position" bigint NOT NULL,
	"lane_id" bigint NOT NULL,
	"ended_at" timestamp with time zone NOT NULL,
	CONSTRAINT "planned_replays_replay_id_position_lane_id_pk" PRIMARY KEY("replay_id","position","lane_id")
);
--> statement-breakpoint
CREATE TABLE "pruned_events" (
	"topic" text NOT NULL,
	"day" date NOT NULL,
	"events" bigint NOT NULL,
	CONSTRAINT "pruned_events_topic_day_pk" PRIMARY KEY("topic","day")
);
--> statement-breakpoint
CREATE TABLE "reconciliations" (
	"provider" text PRIMARY KEY NOT NULL,
	"begun_at" timestamp with time zone DEFAULT now() NOT NULL,
	"step" bigint DEFAULT 0 NOT NULL,
	"next_at" timestamp with time zone NOT NULL,
	"walk_from" timestamp with time zone,
	"walk_until" timestamp with time zone,
	"cursor" text,
	"checked_until" timestamp with time zone,
	"succeeded_at" timestamp with time zone,
	"failed_at" timestamp with time zone,
	"error" text,
	"failures" integer DEFAULT 0 NOT NULL,
	"found" bigint DEFAULT 0 NOT NULL,
	"found_at" timestamp with time zone,
	CONSTRAINT "reconciliations_walk" CHECK ((walk_from is null) = (walk_until is null) and (cursor is null or walk_from is not null)),
	CONSTRAINT "reconciliations_numbers" CHECK (failures >= 0 and found >= 0)
);
--> statement-breakpoint
CREATE TABLE "replay_steps" (
	"replay_id" uuid NOT NULL,
	"at" timestamp with time zone NOT NULL,
	CONSTRAINT "replay_steps_replay_id_at_pk" PRIMARY KEY("replay_id","at")
);
--> statement-breakpoint
CREATE TABLE "replays" (
	"id" uuid PRIMARY KEY NOT NULL,
	"topic" text,
	"requested_at" timestamp with time zone NOT NULL,
	"requested_by" text NOT NULL,
	"reason" text,
	"request" jsonb NOT NULL,
	"matched" integer NOT NULL,
	"replayed" integer NOT NULL,
	"recipients" jsonb
);
--> statement-breakpoint
CREATE TABLE "reserved_positions" (
	"until" bigint NOT NULL,
	"server" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "role_grants" (
	"role" text NOT NULL,
	"may" text NOT NULL,
	"producer" text DEFAULT '' NOT NULL,
	CONSTRAINT "role_grants_role_may_producer_pk" PRIMARY KEY("role","may","producer"),
	CONSTRAINT "role_grants_may" CHECK (may in ('emit', 'relay', 'read') and (may = 'emit') = (producer <> ''))
);
--> statement-breakpoint
CREATE TABLE "set_aside" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "set_aside_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" timestamp with time zone NOT NULL,
	"kind" text NOT NULL,
	"topic" text NOT NULL,
	"event_id" uuid,
	"found" jsonb NOT NULL,
	"repaired_at" timestamp with time zone,
	"repaired_by" text,
	"reason" text,
	CONSTRAINT "set_aside_repaired" CHECK ((repaired_at is null) = (repaired_by is null))
);
--> statement-breakpoint
CREATE TABLE "smoke_tests" (
	"id" uuid PRIMARY KEY NOT NULL,
	"started_at" timestamp with time zone NOT NULL,
	"started_by" text NOT NULL,
	"origin" text,
	"subscribers" text[] NOT NULL,
	"webhooks" jsonb,
	"ended_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "subscriber_health" (
	"subscriber" text NOT NULL,
	"topic" text NOT NULL,
	"period" text NOT NULL,
	"starts_at" timestamp with time zone NOT NULL,
	"delivered" bigint DEFAULT 0 NOT NULL,
	"failed" bigint DEFAULT 0 NOT NULL,
	"dead_lettered" bigint DEFAULT 0 NOT NULL,
	"replays_delivered" bigint DEFAULT 0 NOT NULL,
	"replays_dead_lettered" bigint DEFAULT 0 NOT NULL,
	"delivered_in" bigint[] DEFAULT '{}' NOT NULL,
	"delivered_ms" double precision DEFAULT 0 NOT NULL,
	"handled_in" bigint[] DEFAULT '{}' NOT NULL,
	"handled_ms" double precision DEFAULT 0 NOT NULL,
	"backlog_age_ms" double precision,
	CONSTRAINT "subscriber_health_subscriber_topic_period_starts_at_pk" PRIMARY KEY("subscriber","topic","period","starts_at"),
	CONSTRAINT "subscriber_health_period" CHECK (period in ('hour', 'day', 'total'))
);
--> statement-breakpoint
CREATE TABLE "throughput" (
	"hour" timestamp with time zone NOT NULL,
	"topic" text NOT NULL,
	"shard" bigint NOT NULL,
	"delivered" bigint NOT NULL,
	"first_attempt" bigint NOT NULL,
	"dead_lettered" bigint NOT NULL,
	CONSTRAINT "throughput_hour_topic_shard_pk" PRIMARY KEY("hour","topic","shard")
);
--> statement-breakpoint
CREATE TABLE "webhook_receipts" (
	"provider" text NOT NULL,
	"event_id" text NOT NULL,
	"event_type" text,
	"body_sha256" text NOT NULL,
	"received_at" timestamp with time zone NOT NULL,
	"duplicates" integer DEFAULT 0 NOT NULL,
	"body_mismatches" integer DEFAULT 0 NOT NULL,
	"last_duplicate_at" timestamp with time zone,
	"reconciled_at" timestamp with time zone,
	CONSTRAINT "webhook_receipts_provider_event_id_pk" PRIMARY KEY("provider","event_id"),
	CONSTRAINT "webhook_receipts_event_id" CHECK (octet_length(event_id) between 1 and 255)
);
--> statement-breakpoint
CREATE TABLE "webhook_rejections" (
	"provider" text NOT NULL,
	"reason" text NOT NULL,
	"day" date NOT NULL,
	"count" bigint NOT NULL,
	"last_at" timestamp with time zone NOT NULL,
	"recent_at" timestamp with time zone[] DEFAULT '{}' NOT NULL,
	CONSTRAINT "webhook_rejections_provider_reason_day_pk" PRIMARY KEY("provider","reason","day")
);
--> statement-breakpoint
CREATE TABLE "webhooks_set_aside" (
	"event_id" uuid PRIMARY KEY NOT NULL,
	"provider" text NOT NULL,
	"intent_id" text NOT NULL,
	"provider_event_id" text NOT NULL,
	"correlation_id" text NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"seq" bigint NOT NULL,
	"outcome" jsonb NOT NULL,
	"set_aside_at" timestamp with time zone NOT NULL,
	"unclaimed_at" timestamp with time zone
);
--> statement-breakpoint
CREATE INDEX "alerts_due" ON "alerts" USING btree ("channel","due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "alerts_attempted" ON "alerts" USING btree ("channel","attempted_at");--> statement-breakpoint
CREATE INDEX "awaiting_fan_out_number" ON "awaiting_fan_out" USING btree ("number");--> statement-breakpoint
CREATE UNIQUE INDEX "backfills_open" ON "backfills" USING btree ("topic","subscriber") WHERE ended_at is null;--> statement-breakpoint
CREATE INDEX "backfills_requested" ON "backfills" USING btree ("requested_at","id");--> statement-breakpoint
CREATE INDEX "backlog_recent" ON "backlog" USING btree ("shard") WHERE shard >= 64;--> statement-breakpoint
CREATE INDEX "deliveries_keys" ON "deliveries" USING btree ("lane_id","lane_key","position") WHERE lane_key is not null;--> statement-breakpoint
CREATE INDEX "deliveries_event" ON "deliveries" USING brin ("event_id" uuid_minmax_multi_ops) WITH (pages_per_range=64,autosummarize=true);--> statement-breakpoint
CREATE INDEX "deliveries_dead_letters" ON "deliveries" USING btree ("dead_lettered_at","lane_id","position") WHERE dead_lettered_at is not null;--> statement-breakpoint
CREATE INDEX "deliveries_errors" ON "deliveries" USING btree ("error_group","dead_lettered_at","lane_id","position") WHERE error_group is not null;--> statement-breakpoint
CREATE INDEX "deliveries_replays" ON "deliveries" USING btree ("replayed_at") WHERE replayed_at is not null;--> statement-breakpoint
CREATE INDEX "deliveries_dismissed" ON "deliveries" USING btree ("dismissed_at") WHERE dismissed_at is not null;--> statement-breakpoint
CREATE INDEX "erasures_requested" ON "erasures" USING btree ("requested_at","id");--> statement-breakpoint
CREATE INDEX "erasures_open" ON "erasures" USING btree ("next_at") WHERE ended_at is null;--> statement-breakpoint
CREATE INDEX "error_groups_subscription" ON "error_groups" USING btree ("topic","subscriber");--> statement-breakpoint
CREATE UNIQUE INDEX "events_dedupe" ON "events" USING btree ("topic","dedupe_key") WHERE dedupe_key is not null;--> statement-breakpoint
CREATE INDEX "halts_subscription" ON "halts" USING btree ("topic","subscriber");--> statement-breakpoint
CREATE UNIQUE INDEX "incidents_open" ON "incidents" USING btree ("topic","subscriber","kind") WHERE closed_at is null;--> statement-breakpoint
CREATE INDEX "incidents_closed" ON "incidents" USING btree ("closed_at","id") WHERE closed_at is not null;--> statement-breakpoint
CREATE INDEX "incidents_subscription" ON "incidents" USING btree ("topic","subscriber","kind","closed_at");--> statement-breakpoint
CREATE INDEX "lanes_id" ON "lanes" USING btree ("id");--> statement-breakpoint
CREATE INDEX "lanes_subscription_key" ON "lanes" USING btree ("topic","subscriber","ordering_key");--> statement-breakpoint
CREATE INDEX "lanes_slots" ON "lanes" USING btree ("topic","subscriber","slot","held_key") WHERE slot is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "lanes_in_trouble" ON "lanes" USING btree ("home_id","held_key") WHERE home_id is not null;--> statement-breakpoint
CREATE INDEX "lanes_due" ON "lanes" USING btree ("topic","subscriber","due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "lanes_due_at" ON "lanes" USING btree ("due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "leases_until" ON "leases" USING btree ("until");--> statement-breakpoint
CREATE INDEX "notifications_addressed" ON "notifications" USING btree ("recorded_at") WHERE "notifications"."email" is not null;--> statement-breakpoint
CREATE INDEX "operator_actions_at" ON "operator_actions" USING btree ("at","id");--> statement-breakpoint
CREATE INDEX "operator_actions_incident" ON "operator_actions" USING btree ("incident_id") WHERE incident_id is not null;--> statement-breakpoint
CREATE INDEX "operator_actions_replay" ON "operator_actions" USING btree ("replay_id") WHERE replay_id is not null;--> statement-breakpoint
CREATE INDEX "paced_replays_open" ON "paced_replays" USING btree ("next_at") WHERE ended_at is null;--> statement-breakpoint
CREATE INDEX "payment_intents_asks" ON "payment_intents" USING btree ("provider","state","ask_at") WHERE ask_at is not null and state <> 'failed';--> statement-breakpoint
CREATE INDEX "replays_requested" ON "replays" USING btree ("requested_at","id");--> statement-breakpoint
CREATE INDEX "set_aside_open" ON "set_aside" USING btree ("topic","kind") WHERE repaired_at is null;--> statement-breakpoint
CREATE INDEX "smoke_tests_open" ON "smoke_tests" USING btree ("started_at") WHERE ended_at is null;--> statement-breakpoint
CREATE INDEX "subscriber_health_start" ON "subscriber_health" USING btree ("period","starts_at","topic");--> statement-breakpoint
CREATE INDEX "throughput_recent" ON "throughput" USING btree ("shard") WHERE shard >= 64;--> statement-breakpoint
CREATE INDEX "webhooks_set_aside_intent" ON "webhooks_set_aside" USING btree ("provider","intent_id");--> statement-breakpoint
CREATE INDEX "webhooks_set_aside_waiting" ON "webhooks_set_aside" USING btree ("set_aside_at") WHERE unclaimed_at is null;--> statement-breakpoint
-- What a transition changed in one subscription, or, with an empty subscriber, by how much the topic's events moved
-- between states.
create type postbud_change_1 as (
  topic text,
  subscriber text,
  pending int,
  failing int,
  dead_lettered int,
  delivered int,
  -- Those of `delivered` that needed one attempt and no replay.
  first_attempt int,
  -- Attempts, also the last one of a dead letter.
  failed int,
  last_delivered_at timestamptz,
  last_failed_at timestamptz
);--> statement-breakpoint
-- What becomes of a lane once its outcomes are recorded. Times are epoch milliseconds of the database's clock.
create type postbud_outcome_2 as (
  id bigint,
  -- The lane that the deliveries stand in: another one only for the lane of a key in trouble.
  home bigint,
  token uuid,
  -- The lane's head when the relay last read or wrote it, and its new one.
  head_was bigint,
  head_is bigint,
  retry_at float8,
  -- Until when the relay keeps the lane; null to let it go.
  keep_until float8,
  careful_to bigint,
  waits_for_version smallint,
  -- Whether the subscription waits while its subscriber does not answer.
  waits boolean
);--> statement-breakpoint
-- When a replay put deliveries back: their `replayed_at`.
create view replay_instants as
  select id as replay_id, requested_at as at from replays union all select replay_id, at from replay_steps;--> statement-breakpoint
insert into last_pass (at) values (null);--> statement-breakpoint
-- A settlement rewrites a delivery once and an event's counters about once. Room on the page keeps both HOT; a settled
-- delivery is longer than a new one.
alter table events set (fillfactor = 75);--> statement-breakpoint
alter table deliveries set (fillfactor = 42);--> statement-breakpoint
-- These are small and rewritten all the time.
alter table lanes set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);--> statement-breakpoint
alter table awaiting_fan_out set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);--> statement-breakpoint
alter table backlog set (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);--> statement-breakpoint
alter table throughput set (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);--> statement-breakpoint
alter table subscriber_health set (fillfactor = 50);--> statement-breakpoint
-- Not compressed, so that one id is read without the others.
alter table event_blocks alter column event_ids set storage external;--> statement-breakpoint
-- A producer that hangs with its transaction open holds back its topics: the database ends it after a minute. And a
-- statement whose client is gone (a handler that ran out of time) ends soon after.
do $$
begin
  execute format('alter database %I set idle_in_transaction_session_timeout = ''60s''', current_database());
  execute format('alter database %I set client_connection_check_interval = ''2s''', current_database());
exception when insufficient_privilege or invalid_parameter_value then
  raise notice 'set idle_in_transaction_session_timeout = 60s and client_connection_check_interval = 2s by hand';
end
$$;--> statement-breakpoint
create trigger audit_log_append_only before update or delete on audit_log
  for each row execute function refuse_change();--> statement-breakpoint
create trigger audit_log_kept before truncate on audit_log
  for each statement execute function refuse_change();--> statement-breakpoint
create trigger replays_append_only before update or delete on replays
  for each row execute function refuse_change();--> statement-breakpoint
create trigger replays_kept before truncate on replays
  for each statement execute function refuse_change();--> statement-breakpoint
create trigger operator_actions_append_only before update or delete on operator_actions
  for each row execute function refuse_change();--> statement-breakpoint
create trigger operator_actions_kept before truncate on operator_actions
  for each statement execute function refuse_change();--> statement-breakpoint
-- These have no primary key. Without an identity a publication of all tables would have their changes refused.
alter table lanes replica identity full;--> statement-breakpoint
alter table leases replica identity full;--> statement-breakpoint
alter table last_pass replica identity full;--> statement-breakpoint
alter table reserved_positions replica identity full;

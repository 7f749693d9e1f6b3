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
-- Adds two histograms, bucket by bucket; a shorter one counts as zero at its end.
create or replace function postbud_add_1(one bigint[], other bigint[]) returns bigint[]
language sql immutable parallel safe as $$
  select array(
    select coalesce(a, 0) + coalesce(b, 0) from unnest(one, other) with ordinality as bucket(a, b, number) order by number
  )
$$;--> statement-breakpoint
-- Makes the rights of the database those that `role_grants` lists. `migrate` calls it after the migrations, with the names of
-- all tables; a migration that drops and creates `postbud_emit` calls it too, with none, so that no producer is refused
-- between the two.
--
-- Postgres lets everybody call a new function. Nobody needs that of ours.
create or replace function postbud_apply_grants_1(tables text[]) returns void language plpgsql as $$
declare
  functions oid[] := array(
    select oid from pg_proc
    where pronamespace = 'public'::regnamespace and (proname like 'postbud\_%' or proname = 'refuse_change') order by 1);
  function regprocedure;
  relation text;
  granted record;
begin
  -- Two at once would change the same rows of Postgres's own tables. 7, 1 is the lock of `migrate`.
  perform pg_advisory_xact_lock(7, 2);
  for function in
    select oid from pg_proc where oid = any (functions)
      and (proacl is null or exists (select from aclexplode(proacl) where grantee = 0))
  loop
    execute format('revoke execute on function %s from public', function);
  end loop;

  -- The rows of a role that does not exist wait for it: a restored backup may come before its roles.
  for granted in select distinct rolname as role, may from role_grants join pg_roles on rolname = role loop
    if not has_schema_privilege(granted.role, 'public', 'usage') then
      execute format('grant usage on schema public to %I', granted.role);
    end if;
    if granted.may = 'emit' then
      execute format('grant execute on function postbud_emit to %I', granted.role);
      continue;
    end if;
    foreach relation in array tables loop
      execute format('grant %s on public.%I to %I', case
        when granted.may = 'read' or relation in ('role_grants', 'catalog_topics') then 'select'
        when exists (select from pg_trigger join pg_proc on pg_proc.oid = tgfoid
          where tgrelid = format('public.%I', relation)::regclass and proname = 'refuse_change') then 'select, insert'
        else 'select, insert, update, delete' end, relation, granted.role);
    end loop;
    for function in
      -- Those that change something are volatile.
      select oid from pg_proc where oid = any (functions)
        and (provolatile <> 'v' or granted.may = 'relay' and proname not like '%\_grants\_%')
    loop
      execute format('grant execute on function %s to %I', function, granted.role);
    end loop;
    continue when granted.may = 'read';
    execute format('grant usage on sequence delivery_positions to %I', granted.role);
  end loop;
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
-- Writes the next deliveries of a backfill, in order of position, and moves its front behind them.
--
-- It locks no lane, so fan-out and relays go on meanwhile: nobody claims what is behind the front, and all lanes that it
-- writes to are there from the start. Whoever calls it makes the lanes due afterwards. The order of locks is that of
-- lib/bus/deliveries/locks.ts.
create or replace function postbud_backfill_1(
  backfill uuid, most int, at timestamptz, out written int, out is_ended boolean
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  asked record;
  own bigint[];
  sources bigint[];
  new_front bigint;
  positions bigint[];
  event_ids uuid[];
  bytes int[];
  keys text[];
  moved postbud_change_1[];
begin
  written := 0;
  is_ended := true;
  perform pg_advisory_xact_lock_shared(36953, 0);
  select * into asked from backfills where id = backfill and ended_at is null for update;
  if not found then
    return;
  end if;
  sources := postbud_sources_1(asked.topic, asked.subscriber);
  own := array(
    select id from lanes where topic = asked.topic and subscriber = asked.subscriber and home_id is null
  );
  with next as materialized (
    select position, event_id, min(payload_bytes) as payload_bytes
    from unnest(sources) as source(id), lateral (
      select position, event_id, payload_bytes from deliveries
      where lane_id = source.id and position > asked.front and position <= asked.until order by position limit most
    ) as found
    group by position, event_id order by position limit most
  ),
  missing as (
    select next.*, ordering_key from next join events on events.id = next.event_id
    where created_at >= asked.since and not exists (
      select from deliveries where lane_id = any (own) and deliveries.position = next.position
    )
  )
  select (select case when count(*) < most then asked.until else max(position) end from next),
    array_agg(position order by position), array_agg(event_id order by position),
    array_agg(payload_bytes order by position), array_agg(ordering_key order by position)
  into new_front, positions, event_ids, bytes, keys from missing;
  if positions is not null then
    insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key, backfilled, attempt_log)
    select lane.id, position, event_id, payload_bytes, case when lane.slot is not null then key end, true,
      jsonb_build_array(jsonb_build_object('attempt', 0, 'at', at, 'durationMs', 0, 'outcome', 'backfilled',
        'by', asked.requested_by, 'reason', asked.reason))
    from unnest(positions, event_ids, bytes, keys) as missing(position, event_id, payload_bytes, key), lateral (
      select id, slot from lanes
      where topic = asked.topic and subscriber = asked.subscriber and held_key = ''
        and (slot = case when key <> '' then postbud_slot(key) end or ordering_key = '' and key = '')
    ) as lane;
    get diagnostics written = row_count;
    with locked as materialized (
      select id, topic, state as was from events where id = any (event_ids) order by id for update
    ),
    changed as (
      update events set open = open + 1, subscribers = array_append(subscribers, asked.subscriber)
      from locked where events.id = locked.id
      returning postbud_event_moved(locked.topic, was, state) as moved
    )
    select array_agg(changed.moved) into moved from changed;
    perform postbud_count_2(
      moved || row(asked.topic, asked.subscriber, written, 0, 0, 0, 0, 0, null, null)::postbud_change_1, at);
  end if;
  is_ended := new_front >= asked.until;
  update backfills set front = new_front, written = backfills.written + postbud_backfill_1.written,
    next_at = case when per_minute is null then at
      -- What it was late for is caught up, but not more than ten seconds of it.
      else greatest(next_at, at - interval '10 seconds')
        + postbud_backfill_1.written * interval '1 minute' / per_minute end,
    ended_at = case when is_ended then at end
  where id = backfill;
end
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
  where topic = asked.topic and subscriber = asked.subscriber and lease_token is not null and coalesce(due_at, leased_until) <= at;
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
-- Counts the single-letter changes between two names (Levenshtein).
create or replace function postbud_edits_1(one text, other text) returns int language plpgsql immutable as $$
declare
  costs int[] := array(select generate_series(0, length(other)));
  row int[];
begin
  for i in 1..length(one) loop
    row := array[i];
    for j in 1..length(other) loop
      row[j + 1] := least(
        row[j] + 1, costs[j + 1] + 1, costs[j] + (substr(one, i, 1) <> substr(other, j, 1))::int);
    end loop;
    costs := row;
  end loop;
  return costs[length(other) + 1];
end
$$;--> statement-breakpoint
-- Records an event in the outbox, in the caller's transaction: `emit` for producers in other languages, and what `emit` of
-- the package calls. It runs with the owner's rights, so that producers need none on any table.
--
-- `topic` must be one of the catalog that the last `migrate` wrote, and the caller's role be granted its producer;
-- `payload` must match its schema, of this version or, for producers that are older than the
-- catalog, of an earlier one; `version` says which to try first. Fields that the schema does not name are left out. By default `ordering_key` is the
-- topic's own. A `dedupe_key` makes the event unique in its topic: emitting it again returns the id of the first.
--
-- Returns the event's id, a UUIDv7. Raises PB001 for an unknown topic or version, PB002 for a payload or a key that does not
-- fit, and PB004 for a topic that the role may not emit: the message names each wrong field by its path, and the detail has
-- the same as JSON. The transaction is aborted then, as by any error.
create or replace function postbud_emit(
  topic text, payload jsonb, ordering_key text default null, dedupe_key text default null,
  correlation_id text default null, causation_id text default null, traceparent text default null, version int default null
)
returns uuid language plpgsql security definer
-- Temporary tables come last: unnamed they would come first, and a producer's `catalog_topics` with them.
set search_path = pg_catalog, public, pg_temp as $$
#variable_conflict use_column
declare
  known catalog_topics;
  -- Inside, `current_user` is the owner. The role is the one of `set role` where there is one, as for any right.
  caller name := case current_setting('role') when 'none' then session_user else current_setting('role') end;
  as_version smallint;
  tried smallint;
  checked record;
  newest record;
  stored jsonb;
  given_keys record;
  new_id uuid;
  place record;
begin
  select * into known from catalog_topics where catalog_topics.topic = postbud_emit.topic;
  if not found then
    raise exception using errcode = 'PB001',
      message = format('unknown topic %s', coalesce(to_json(postbud_emit.topic)::text, 'null')),
      hint = coalesce(
        (select 'did you mean ' || near.topic || '?'
          from (
            select catalog_topics.topic, postbud_edits_1(lower(postbud_emit.topic), catalog_topics.topic) as edits
            from catalog_topics
            -- Longer names than any topic's cost time and are near to none.
            where length(postbud_emit.topic) <= 100
            order by edits, catalog_topics.topic limit 1
          ) as near
          where edits <= greatest(1, length(postbud_emit.topic) / 3)),
        case when exists (select from catalog_topics) then 'npx postbud catalog lists the topics'
          else 'the catalog is empty: run npm run migrate' end);
  end if;
  -- Who may write to the table needs no grant: the owner, the relays.
  if not has_table_privilege(caller, 'events', 'insert') and not exists (
    select from role_grants join pg_roles on rolname = role
    where may = 'emit' and producer = known.producer and pg_has_role(caller, pg_roles.oid, 'usage'))
  then
    raise exception using errcode = 'PB004',
      message = format('%s may not emit %s: it is granted %s', caller, known.topic, coalesce(
        (select 'the topics of ' || string_agg(distinct producer, ', ' order by producer)
          from role_grants join pg_roles on rolname = role
          where may = 'emit' and pg_has_role(caller, pg_roles.oid, 'usage')), 'no topics')),
      hint = format('npm run grant -- --role %s --producer %s', caller, known.producer);
  end if;
  if postbud_emit.version > known.version then
    raise exception using errcode = 'PB001',
      message = format('unknown version %s of %s', postbud_emit.version, known.topic),
      hint = format('this database has version %s: run npm run migrate of the release that has version %s first',
        known.version, postbud_emit.version);
  end if;
  for tried in
    select published.version::smallint from jsonb_object_keys(known.schemas) as published(version)
    order by published.version::smallint <= postbud_emit.version desc nulls last, 1 desc
  loop
    checked := postbud_parse_2(known.schemas -> tried::text, array[coalesce(postbud_emit.payload, 'null')]);
    if newest is null then
      newest := checked;
    end if;
    if checked.places = '{}' then
      as_version := tried;
      exit;
    end if;
  end loop;
  if as_version is null then
    perform postbud_refuse_payload_1(known.topic, newest.paths, newest.problems);
  end if;
  stored := coalesce(checked.parsed[1], postbud_emit.payload);
  select array_agg(name) as names, array_agg('expected at most 255 characters'::text) as problems into given_keys
  from (values ('ordering_key', postbud_emit.ordering_key), ('dedupe_key', postbud_emit.dedupe_key),
    ('correlation_id', postbud_emit.correlation_id), ('causation_id', postbud_emit.causation_id),
    ('traceparent', postbud_emit.traceparent)) as keys(name, value)
  where length(value) > 255;
  if given_keys.names is not null then
    perform postbud_refuse_payload_1(known.topic, given_keys.names, given_keys.problems);
  end if;

  -- The first half of the quiet fence (lib/bus/outbox/record.ts): the emitter lock first, then the timestamp.
  perform pg_advisory_xact_lock_shared(36951, hashtext(known.topic));
  -- UUIDv7: 48 bits of milliseconds before a random UUID's, whose version becomes 7.
  new_id := encode(set_bit(set_bit(
    overlay(uuid_send(gen_random_uuid())
      placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;
  insert into events (id, topic, payload, version, producer, subscribers, open, ordering_key, dedupe_key,
    correlation_id, causation_id, traceparent, created_at)
  values (new_id, known.topic, stored, as_version, known.producer, known.subscribers,
    cardinality(known.subscribers),
    coalesce(postbud_emit.ordering_key, stored ->> known.ordered_by, ''), postbud_emit.dedupe_key,
    -- An event without a cause starts a correlation of its own.
    coalesce(postbud_emit.correlation_id, postbud_emit.causation_id, new_id::text), postbud_emit.causation_id,
    postbud_emit.traceparent, greatest(clock_timestamp(), now()))
  on conflict (topic, dedupe_key) where dedupe_key is not null do nothing
  returning events.created_at, events.seq, events.ordering_key into place;
  if not found then
    return (select id from events where events.topic = known.topic and events.dedupe_key = postbud_emit.dedupe_key);
  end if;
  insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, payload_bytes, subscribers)
  values (known.topic, place.created_at, place.seq, new_id, place.ordering_key, cardinality(known.subscribers),
    octet_length(stored::text), known.subscribers);
  return new_id;
end
$$;--> statement-breakpoint
-- An event that went from one state to another, as a change of its topic's events.
create or replace function postbud_event_moved(topic text, was delivery_state, becomes delivery_state)
returns postbud_change_1 language sql stable parallel safe as $$
  select row(topic, '', (becomes = 'pending')::int - (was = 'pending')::int,
    (becomes = 'failing')::int - (was = 'failing')::int,
    (becomes = 'dead_lettered')::int - (was = 'dead_lettered')::int, 0, 0, 0, null, null)::postbud_change_1
$$;--> statement-breakpoint
-- The worst state of an event's deliveries, as its generated column has it, from other counters than the stored ones.
create or replace function postbud_event_state(open int, failing int, dead_lettered int) returns delivery_state
language sql stable parallel safe as $$
  select (case when dead_lettered > 0 then 'dead_lettered' when failing > 0 then 'failing'
    when open > 0 then 'pending' else 'delivered' end)::delivery_state
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
  select min(topic), max(topic), count(*) into topic_name, last_topic, found_events
  from (select topic from awaiting_fan_out where number > scan_from order by number limit 1000) as first;
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
  is_quiet := pins is null and found_events < 1000 and not is_whole
    and extract(epoch from at) - (memory ->> 'movedAt')::float8 < 0.2;
  if is_quiet then
    foreach topic_name in array topics loop
      is_quiet := is_quiet and pg_try_advisory_lock(36951, hashtext(topic_name))
        and pg_advisory_unlock(36951, hashtext(topic_name));
    end loop;
  end if;
  if is_quiet then
    -- All that waits of these topics, and in a newer snapshot than the locks that were tried. By number: in the order of topics
    -- the dead stand before it, and without the offset the planner may choose that.
    marker_ids := array(
      select id from (
        select ctid as id, topic, created_at, seq from awaiting_fan_out where number > scan_from order by number offset 0
      ) as waiting
      where waiting.topic = any (topics) and created_at < at order by created_at, seq limit max_events
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
    select array_agg(topic), array_agg(least_at), coalesce(sum(waiting), 0) into topics, leasts, found_events
    from (
      select topic, min(created_at) as least_at, count(*) as waiting
      from (
        select topic, created_at from awaiting_fan_out where number > scan_from order by number limit 1000
      ) as first
      -- Another order each time, so that under a flood no topic is always last.
      group by topic order by random()
    ) as waiting;
    select array_agg(case when coalesce(holders ? lock, false)
      then greatest((passed -> lock ->> 'at')::timestamptz, (began ->> lock)::timestamptz) else at end
      order by turn) into untils
    from unnest(topics) with ordinality as waiting(topic, turn),
      lateral (select (hashtext(topic)::bigint & 4294967295)::text as lock) as named;
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
-- A lane that takes events and is deleted is made again with the next event: no row of home_lanes may name it any more.
create or replace function postbud_forget_home_lane_1() returns trigger language plpgsql as $$
begin
  delete from home_lanes where lane_id = old.id and topic = old.topic and subscriber = old.subscriber;
  return null;
end
$$;--> statement-breakpoint
-- How far a lane may be delivered: up to the front of a backfill that is under way in its subscription, or to the first
-- dead letter that halts it (of a shared lane: that halts this key). Null where nothing bounds it. Most of the time nothing
-- bounds any lane: the callers look for that first.
create or replace function postbud_front_1(of_topic text, of_subscriber text, home bigint, of_key text) returns bigint
language sql stable as $$
  select least((
    select front from backfills where topic = of_topic and subscriber = of_subscriber and ended_at is null
  ), (
    select min(halts.position) from halts join deliveries using (lane_id, position)
    where halts.lane_id = home and halts.lane_key is not distinct from of_key
      and deliveries.state = 'dead_lettered' and deliveries.dismissed_at is null
  ))
$$;--> statement-breakpoint
-- The lanes that take events of a topic for subscribers, made where there are none yet: that of the topic without a slot,
-- else the shared one.
create or replace function postbud_lanes_2(
  for_topic text, subscribers text[], for_slot smallint, newest bigint
) returns bigint[] language plpgsql as $$
declare
  ids bigint[];
begin
  for attempt in 1..9 loop
    select array_agg(lane_id) into ids from home_lanes
    where topic = for_topic and subscriber = any (subscribers) and slot = coalesce(for_slot, 0);
    if coalesce(cardinality(ids), 0) = cardinality(subscribers) then
      return coalesce(ids, '{}');
    end if;
    begin
      with made as (
        insert into lanes (topic, subscriber, ordering_key, slot, tail)
        select for_topic, subscriber, case when for_slot is null then '' end, for_slot, newest
        from unnest(subscribers) as subscriber
        where not exists (
          select from home_lanes
          where topic = for_topic and home_lanes.subscriber = subscriber.subscriber and slot = coalesce(for_slot, 0)
        )
        order by subscriber returning id, subscriber
      )
      insert into home_lanes (topic, subscriber, slot, lane_id)
      select for_topic, subscriber, coalesce(for_slot, 0), id from made order by subscriber;
    exception when unique_violation then
      -- Another transaction has made one meanwhile, and has committed it: the next attempt finds it.
      null;
    end;
  end loop;
  raise exception 'the lanes of % for % could not be made', for_topic, subscribers;
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
        'lapsed_at', case when lane.lease_token is not null then extract(epoch from coalesce(lane.due_at, lane.leased_until)) * 1000 end,
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
        'lapsed_at', case when lane.lease_token is not null then extract(epoch from coalesce(lane.due_at, lane.leased_until)) * 1000 end,
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
-- Locks lanes, in the order of their ids, and reads them.
--
-- Of a lane that changes with each event the index has an entry for each page of its versions, and beside an old snapshot all
-- of them stay. Its newest version has the last entry: so the entries are read from their end, here and wherever a turn finds
-- a lane. An equality would be read from the beginning, whatever order is asked for.
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
-- The next open deliveries of a lane, in order. They stand in the lane itself, or, of a key in trouble, in its home.
create or replace function postbud_next_2(
  lane bigint, home bigint, in_slot smallint, of_key text, head bigint, asked int
) returns table (
  "position" bigint, event_id uuid, attempts smallint, replays smallint, next_attempt_at timestamptz, payload_bytes int,
  backfilled boolean
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  in_trouble text[];
begin
  if home is not null then
    -- The row is compared as the index of keys has it: that of the primary key would read those of all other keys.
    return query
      select next.position, next.event_id, next.attempts, next.replays, next.next_attempt_at, next.payload_bytes,
        next.backfilled
      from deliveries as next
      where (next.lane_id, next.lane_key, next.position) > (home, of_key, head)
        and next.lane_id = home and next.lane_key = of_key
        and coalesce(next.state in ('pending', 'failing'), false)
      order by next.lane_id, next.lane_key, next.position limit asked;
    return;
  end if;
  if in_slot is not null then
    select array_agg(held_key) into in_trouble from lanes where home_id = lane;
  end if;
  return query
    select next.position, next.event_id, next.attempts, next.replays, next.next_attempt_at, next.payload_bytes,
        next.backfilled
    from deliveries as next
    where next.lane_id = lane and next.position > head
      -- Wrapped, so that the planner does not take the open ones for few, and read and sort a whole lane of them.
      and coalesce(next.state in ('pending', 'failing'), false)
      and (in_trouble is null or next.lane_key <> all (in_trouble))
    order by next.position limit asked;
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
-- Checks values against a JSON Schema: the keywords that the catalog's schemas have (lib/platform/db/publish-catalog.ts).
--
-- It takes all values that one place of the schema describes at once, such as the `amountMinor` of 8,000 lines, so that a
-- list costs a few statements for each field of its items, and not a call for each item.
--
-- `given` is null where there is nothing to check. `parsed` are the values without the fields that their schema does not
-- name, as `emit` stores them; null if all stay as they are. `places`, `paths` and `problems` say which values (counted
-- from 1) do not fit, where in them (`lines.0.amountMinor`) and why. No problem repeats a value, which may be personal.
create or replace function postbud_parse_2(
  schema jsonb, given jsonb[], out parsed jsonb[], out places int[], out paths text[], out problems text[]
)
language plpgsql immutable as $$
#variable_conflict use_column
declare
  -- Null where any type will do.
  types text[] := case jsonb_typeof(schema -> 'type') when 'string' then array[schema ->> 'type']
    when 'array' then array(select jsonb_array_elements_text(schema -> 'type')) end;
  takes_integers boolean := coalesce('integer' = any (types), false);
  expected text := 'expected ' || (
    select string_agg(case when name = 'null' then name when name ~ '^[aeiou]' then 'an ' || name else 'a ' || name end, ' or ')
    from unnest(types) as names(name));
  words jsonb := schema -> 'enum';
  shortest int := (schema ->> 'minLength')::int;
  longest int := (schema ->> 'maxLength')::int;
  pattern text := schema ->> 'pattern';
  quick_pattern text := schema ->> 'quickPattern';
  least numeric := (schema ->> 'minimum')::numeric;
  most numeric := (schema ->> 'maximum')::numeric;
  above numeric := (schema ->> 'exclusiveMinimum')::numeric;
  fewest_items int := (schema ->> 'minItems')::int;
  most_items int := (schema ->> 'maxItems')::int;
  has_failed boolean[];
  remaining jsonb[] := given;
  is_first boolean := true;
  place int;
  part record;
  found record;
  inner_values jsonb[];
  owners int[];
  indexes int[];
  names text[];
  is_named boolean;
  objects int;
  filled int;
begin
  places := '{}';
  paths := '{}';
  problems := '{}';
  if schema ? 'anyOf' then
    for part in select option from jsonb_array_elements(schema -> 'anyOf') as options(option) loop
      select * into found from postbud_parse_2(part.option, remaining);
      has_failed := array_fill(false, array[cardinality(given)]);
      foreach place in array found.places loop
        has_failed[place] := true;
      end loop;
      if found.parsed is not null then
        parsed := array(
          select case when value is null or failed then so_far else now end
          from unnest(coalesce(parsed, given), remaining, has_failed, found.parsed) as options(so_far, value, failed, now));
      end if;
      -- Where no option fits, the first one's problems count: the others allow null.
      if is_first then
        select found.places, found.paths, found.problems into places, paths, problems;
        is_first := false;
      else
        select coalesce(array_agg(issue.place), '{}'), coalesce(array_agg(issue.path), '{}'), coalesce(array_agg(issue.problem), '{}')
        into places, paths, problems
        from unnest(places, paths, problems) as issue(place, path, problem) where has_failed[issue.place];
      end if;
      exit when places = '{}';
      remaining := array(select case when failed then value end from unnest(remaining, has_failed) as tried(value, failed));
    end loop;
    return;
  end if;

  select coalesce(array_agg(checked.place) filter (where problem is not null), '{}'),
    coalesce(array_agg(''::text) filter (where problem is not null), '{}'),
    coalesce(array_agg(problem) filter (where problem is not null), '{}'),
    count(*) filter (where is_of = 'object')
  into places, paths, problems, objects
  from (
    select typed.place, is_of, case
      when is_of = any (types) or is_of is null or types is null
          or (takes_integers and is_of = 'number' and value::numeric = trunc(value::numeric)) then case
        when words is not null and not words @> value then 'expected one of ' || (
          select string_agg(word::text, ', ') from jsonb_array_elements(words) as allowed(word))
        when is_of = 'string' then case
          when length(value #>> '{}') < shortest then format('expected at least %s characters', shortest)
          when length(value #>> '{}') > longest then format('expected at most %s characters', longest)
          when coalesce((value #>> '{}') !~ quick_pattern, true) and (value #>> '{}') !~ pattern then coalesce(schema ->> 'message', 'expected a text that matches ' || pattern)
        end
        when is_of = 'number' then case
          when value::numeric < least then format('expected at least %s', least)
          when value::numeric > most then format('expected at most %s', most)
          when value::numeric <= above then format('expected more than %s', above)
        end
        when is_of = 'array' then case
          when jsonb_array_length(value) < fewest_items then format('expected at least %s items', fewest_items)
          when jsonb_array_length(value) > most_items then format('expected at most %s items', most_items)
        end
      end
      else expected || ', not ' || case when is_of = 'null' then is_of when is_of ~ '^[aeiou]' then 'an ' || is_of else 'a ' || is_of end
    end as problem
    from (
      select value, jsonb_typeof(value) as is_of, numbered.place from unnest(given) with ordinality as numbered(value, place)
      -- Otherwise the planner writes the function in each place that names its result.
      offset 0
    ) as typed
  ) as checked;

  if schema ? 'items' then
    select array_agg(item), array_agg(listed.place), array_agg(nth - 1) into inner_values, owners, indexes
    from unnest(given) with ordinality as listed(value, place),
      jsonb_array_elements(case jsonb_typeof(value) when 'array' then value end) with ordinality as items(item, nth);
    if inner_values is not null then
      select * into found from postbud_parse_2(schema -> 'items', inner_values);
      if found.parsed is not null then
        parsed := array(
          select coalesce(jsonb_agg(value order by nth) filter (where nth is not null), (array_agg(value))[1])
          from (
            select value, listed.place, null::int as nth from unnest(given) with ordinality as listed(value, place)
            union all
            select value, owner, nth from unnest(found.parsed, owners, indexes) as items(value, owner, nth)
          ) as parts
          group by parts.place order by parts.place);
      end if;
      paths := paths || array(
        select concat_ws('.', indexes[issue.place], nullif(issue.path, ''))
        from unnest(found.places, found.paths) as issue(place, path));
      places := places || array(select owners[issue.place] from unnest(found.places) as issue(place));
      problems := problems || found.problems;
    end if;
  end if;

  if schema ? 'properties' and objects > 0 then
    if coalesce(schema -> 'additionalProperties' = 'false', true) then
      names := array(select jsonb_object_keys(schema -> 'properties'));
      select array_agg(case when is_named then value
          else value - array(select jsonb_object_keys(value - names)) end),
        bool_and(is_named)
      into inner_values, is_named
      from (
        select value, jsonb_typeof(value) is distinct from 'object' or value - names = '{}' as is_named
        from unnest(given) as stripped(value)
      ) as stripped;
      if not is_named then
        parsed := inner_values;
      end if;
    end if;
    for part in
      select name, rule, schema -> 'required' ? name as is_required
      from jsonb_each(schema -> 'properties') as fields(name, rule)
    loop
      select array_agg(value -> part.name), count(value -> part.name) into inner_values, filled from unnest(given) as fields(value);
      if filled > 0 then
        select * into found from postbud_parse_2(part.rule, inner_values);
        if found.parsed is not null then
          parsed := array(
            select case when field is null then value else value || jsonb_build_object(part.name, field) end
            from unnest(coalesce(parsed, given), found.parsed) as objects(value, field));
        end if;
        places := places || found.places;
        paths := paths || array(select concat_ws('.', part.name, nullif(path, '')) from unnest(found.paths) as issue(path));
        problems := problems || found.problems;
      end if;
      if part.is_required and filled < objects then
        select places || array_agg(lacking.place), paths || array_agg(part.name), problems || array_agg('is missing'::text)
        into places, paths, problems
        from unnest(given) with ordinality as lacking(value, place)
        where jsonb_typeof(value) = 'object' and not value ? part.name;
      end if;
    end loop;
  end if;
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
    select lane.id, position, event_id, payload_bytes, ordering_key
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
-- The position up to which all deliveries of a lane are of events older than `since`. Positions follow the order of
-- creation, so it is found by halving.
create or replace function postbud_position_before_1(lane bigint, since timestamptz) returns bigint
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  older bigint := 0;
  newer bigint := (select tail from lanes where id = lane);
  middle bigint;
  probe record;
begin
  while older < newer loop
    middle := (older + newer) / 2;
    select position, created_at into probe
    from (
      select position, event_id from deliveries where lane_id = lane and position > middle order by position limit 1
    ) as next join events on events.id = event_id;
    if not found or probe.position > newer or probe.created_at >= since then
      newer := middle;
    else
      older := probe.position;
    end if;
  end loop;
  return older;
end
$$;--> statement-breakpoint
-- Notes which subscribers answer, of those whose subscriptions wait while nobody is there. An attempt that failed as if
-- nobody was there counts for its lane, or for its key in a shared one. Three of them, or one that failed three times, in
-- the same way and without an answer between them, open an outage. Any answer ends it, also an error.
--
-- `unfinished` says of each attempt: `presence` is `absent`, `present` or null (neither: the relay died, or the subscriber
-- asked to wait), and `is_probe`. The lanes must be locked. One settlement at a time does this, so that two that count
-- lanes of one subscriber do not deadlock.
--
-- What the failures before the outage used up is given back by the relay, which takes the locks that this needs in their
-- order: see lib/bus/deliveries/give-back.ts.
create or replace function postbud_record_presence_1(
  outcomes postbud_outcome_2[], held bigint[], delivered_lanes bigint[], unfinished jsonb, at timestamptz
) returns void language plpgsql as $$
declare
  answering text[];
  has_absent constant boolean := exists (
    select from jsonb_to_recordset(unfinished) as attempt(presence text) where presence = 'absent'
  );
begin
  if not has_absent and not exists (select from absences) and not exists (select from outages where recovered_at is null) then
    return;
  end if;
  perform pg_advisory_xact_lock(36961, 0);
  if exists (select from absences) or exists (select from outages where recovered_at is null) then
    select array_agg(distinct subscriber order by subscriber) into answering
    from unnest(outcomes) as outcome join lanes on lanes.id = outcome.id
    where outcome.waits and outcome.id = any (held) and (
      outcome.id = any (delivered_lanes) or exists (
        select from jsonb_to_recordset(unfinished) as attempt(lane bigint, presence text)
        where attempt.lane = outcome.id and presence = 'present'
      )
    );
    if answering is not null then
      delete from absences where subscriber = any (answering);
      update outages set recovered_at = at where subscriber = any (answering) and recovered_at is null;
    end if;
  end if;
  if has_absent then
    with absent as materialized (
      select subscriber, attempt.entry ->> 'kind' as kind, attempt.entry ->> 'message' as message, attempt.home,
        coalesce(lane_key, '') as lane_key, coalesce(is_probe, false) as is_probe,
        (attempt.entry ->> 'at')::timestamptz as began_at
      from jsonb_to_recordset(unfinished) as attempt(lane bigint, home bigint, position bigint, presence text,
          is_probe boolean, entry jsonb)
        join lanes on lanes.id = attempt.lane
        join deliveries on deliveries.lane_id = attempt.home and deliveries.position = attempt.position
      where presence = 'absent' and attempt.lane = any (held) and (answering is null or not subscriber = any (answering))
    ),
    -- The claim put the next probe off until the lease of this one is over, which is longer than ten seconds. An earlier
    -- time was asked for meanwhile: the subscriber says that it is back, or an operator does.
    probed as (
      update outages set probes = probes + 1, next_probe_at =
        case when next_probe_at <= greatest(at, probed_at + interval '10 seconds') then next_probe_at
          else at + interval '5 minutes' end
      where recovered_at is null and subscriber in (select subscriber from absent where is_probe)
    ),
    counted as (
      insert into absences as known (subscriber, kind, lane_id, lane_key, failures, began_at)
      select subscriber, kind, home, lane_key, count(*), min(began_at) from absent
      where not is_probe and not exists (
        select from outages where outages.subscriber = absent.subscriber and recovered_at is null
      )
      group by 1, 2, 3, 4 order by 1, 2, 3, 4
      on conflict (subscriber, kind, lane_id, lane_key) do update set failures = known.failures + excluded.failures,
        began_at = least(known.began_at, excluded.began_at)
      returning *
    ),
    together as (
      -- The statement does not see its own rows.
      select * from counted
      union all
      select * from absences where subscriber in (select subscriber from counted)
        and (subscriber, kind, lane_id, lane_key) not in (select subscriber, kind, lane_id, lane_key from counted)
    )
    insert into outages (subscriber, kind, message, opened_at, began_at, next_probe_at)
    select distinct on (subscriber) subscriber, kind, coalesce((
      select message from absent where absent.subscriber = together.subscriber and absent.kind = together.kind limit 1
    ), ''), at, (
      select min(began_at) from together as known where known.subscriber = together.subscriber
    ), at + interval '1 minute'
    from together group by subscriber, kind having count(*) >= 3 or max(failures) >= 3
    order by subscriber, count(*) desc
    on conflict (subscriber) do update set kind = excluded.kind, message = excluded.message,
      opened_at = excluded.opened_at, began_at = least(outages.began_at, excluded.began_at), probes = 0,
      probed_at = null, next_probe_at = excluded.next_probe_at, recovered_at = null
    where outages.recovered_at is not null;
    delete from absences using outages
    where outages.subscriber = absences.subscriber and recovered_at is null;
  end if;
end
$$;--> statement-breakpoint
-- Raises PB002 with the first 20 problems of a payload.
create or replace function postbud_refuse_payload_1(topic text, paths text[], problems text[]) returns void language plpgsql as $$
declare
  -- As many as lib/bus/outbox/errors.ts lists.
  listed constant int := 20;
  more int := cardinality(paths) - listed;
begin
  raise exception using errcode = 'PB002',
    message = format('the payload does not match %s: %s', topic, (
      select string_agg(concat_ws(': ', nullif(path, ''), problem), '; ')
      from unnest(paths[1:listed], problems[1:listed]) as issues(path, problem)))
      || case when more > 0 then format('; … and %s more', to_char(more, 'FM999,999,999')) else '' end,
    detail = (
      select jsonb_agg(jsonb_build_object('path', path, 'message', problem))
      from unnest(paths[1:listed], problems[1:listed]) as issues(path, problem))::text;
end
$$;--> statement-breakpoint
-- Raises where a turn or a settlement would decide by an old snapshot. In REPEATABLE READ a turn that waited for the fan-out
-- lock does not see what was committed meanwhile, and fans out a later event first.
create or replace function postbud_require_read_committed_1() returns void language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'PB003',
      message = format('the event bus decides in READ COMMITTED only, and this transaction is in %s',
        upper(current_setting('transaction_isolation'))),
      hint = 'begin it with: begin isolation level read committed';
  end if;
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
        insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, due_at)
        -- What may have ended a relay goes on one by one there.
        select home.topic, home.subscriber, home.slot, settled.lane_key, home.id,
          greatest(home.careful_to, outcome.careful_to),
          -- Moved back since the claim: a replay may have put back what comes first of this key.
          case when home.head = outcome.head_was then settled.position - (not coalesce(halts, false))::int
            else least(settled.position - 1, home.head) end,
          settled.position, case when home.head <> outcome.head_was then postbud_settle_3.at
            when halts then 'infinity' else settled.next_attempt_at end
        from settled join unnest(outcomes) as outcome on outcome.id = settled.lane, lateral (
            select * from lanes where lanes.id >= settled.lane and lanes.id <= settled.lane order by lanes.id desc limit 1
          ) as home
        where home.slot is not null and home.home_id is null and (settled.next_attempt_at is not null or halts)
        order by settled.position
        on conflict (home_id, held_key) where home_id is not null
          do update set head = least(lanes.head, excluded.head), due_at = excluded.due_at,
            careful_to = greatest(lanes.careful_to, excluded.careful_to)
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
      insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, waits_for_version,
        held_version, lease_token, leased_until, due_at)
      select topic, subscriber, slot, key, home.id, greatest(home.careful_to, outcome.careful_to),
        case when home.head = outcome.head_was then key_leaving.position - 1
          else least(key_leaving.position - 1, home.head) end,
        key_leaving.position,
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
      on conflict (home_id, held_key) where home_id is not null
        do update set head = least(lanes.head, excluded.head),
          careful_to = greatest(lanes.careful_to, excluded.careful_to)
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
-- The shared lane of an ordering key, 1 to 8. By MD5, since `hashtext` may change with Postgres's version, and a key
-- that changed lanes with it could overtake itself.
create or replace function postbud_slot(ordering_key text) returns smallint language sql immutable parallel safe as $$
  select (get_byte(decode(md5(ordering_key), 'hex'), 0) % 8 + 1)::smallint
$$;--> statement-breakpoint
-- The lanes that events of a topic are found in: those of its other subscribers. Every event has a delivery in one.
create or replace function postbud_sources_1(of_topic text, but_subscriber text) returns bigint[] language sql stable as $$
  select coalesce(array_agg(id), '{}') from lanes
  where topic = of_topic and subscriber <> but_subscriber and home_id is null
$$;--> statement-breakpoint
create or replace aggregate postbud_sum_1(bigint[]) (
  sfunc = postbud_add_1, stype = bigint[], initcond = '{}', parallel = safe
);--> statement-breakpoint
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
  perform from lanes
  where due_at > now_at + interval '10 seconds' and due_at < 'infinity' or leased_until > now_at + interval '10 seconds'
  order by id for update;
  with ahead as materialized (
    select * from (
      select id, home_id, slot, held_key, head, lease_token,
        coalesce(due_at, case when lease_token is not null then leased_until end) as due_at
      from lanes
    ) as lane where due_at > now_at + interval '10 seconds' and due_at < 'infinity'
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
    select id, home, position, ahead_by, due_at as was_due_at, case
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
    from right_time where lanes.id = right_time.id and was_due_at > right_time.due_at
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
-- What each process does once a second, beside its turns: it makes the lanes due of relays that died, and folds counters.
-- @returns the clock, and how many lanes are due by it.
create or replace function postbud_tidy_1(
  -- When this process tidied last: it has looked for relays that died, and folded, up to then. Null for the first time.
  clock timestamptz, since timestamptz, out now_at timestamptz, out rescued int
) language plpgsql
set enable_seqscan = off as $$
declare
  -- Counters are kept by stretches of four seconds.
  stretch constant bigint := floor(extract(epoch from clock_timestamp()) / 4);
  last_stretch constant bigint := floor(extract(epoch from since) / 4);
  -- Each stretch is folded when it is over, and once more after two minutes: for what was locked, or not committed yet. What
  -- has been folded is dead rows, and a snapshot may keep them.
  ranges constant int8range[] := case when last_stretch is null then array[int8range(64, (stretch - 2) * 64)]
    else array(
      select int8range(greatest((last_stretch - age) * 64, 64), (stretch - age) * 64)
      from unnest(array[2, 30]) as age where last_stretch < stretch
    ) end;
begin
  now_at := coalesce(clock, clock_timestamp());
  with passed as (
    -- A turn takes less time than a lease lasts: what is older has been seen.
    delete from leases where until > coalesce(since - interval '1 second', '-infinity') and until <= now_at returning lanes
  ),
  lapsed as materialized (
    select lane.address from (select distinct id from passed, unnest(lanes) as id order by id) as held, lateral (
      select ctid as address, lease_token, due_at, leased_until from lanes
      where lanes.id >= held.id and lanes.id <= held.id order by lanes.id desc limit 1 for update
    ) as lane
    where lease_token is not null and due_at is null and leased_until <= now_at
  )
  update lanes set due_at = leased_until where ctid = any (array(select address from lapsed));
  get diagnostics rescued = row_count;
  with recent as (
    select id from unnest(ranges) as stretches, lateral (
      select ctid as id from backlog where shard >= 64 and shard >= lower(stretches) and shard < upper(stretches)
      order by topic, subscriber, shard for update skip locked
    ) as row
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
    select id from unnest(ranges) as stretches, lateral (
      select ctid as id from throughput where shard >= 64 and shard >= lower(stretches) and shard < upper(stretches)
      order by hour, topic, shard for update skip locked
    ) as row
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
-- One turn of a relay in one round trip: fans out, settles what is done, and claims what is due. Each statement in here
-- sees what was committed before it began, and begins only if there is something for it to do: a turn costs as much as it
-- has statements, 10 to 15 microseconds for each before it does anything.
--
-- The order of locks is that of lib/bus/deliveries/locks.ts: the fan-out's, then all lanes that are changed, in the order of
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
      if coalesce(lane.due_at, case when lane.lease_token is not null then lane.leased_until end) > now_at or lane.waits_for_version > versions[turn] then
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
    'isAwaited', is_awaited, 'isMet', is_met, 'isClockBack', is_clock_back,
    'hasRecovered', has_recovered, 'hasFoundDue', has_found_due, 'memory', case when is_memory_new then memory end, 'settled', settlement,
    'claimed', claimed);
end
$$;--> statement-breakpoint
-- Takes all rights on the bus's tables and functions from a role, and gives it back those that `role_grants` still lists.
create or replace function postbud_withdraw_grants_1(from_role text, tables text[]) returns void language plpgsql as $$
declare
  function regprocedure;
  relation text;
begin
  if exists (select from pg_roles where rolname = from_role) then
    foreach relation in array tables loop
      execute format('revoke all on public.%I from %I', relation, from_role);
    end loop;
    execute format('revoke all on sequence delivery_positions from %I', from_role);
    for function in
      select oid from pg_proc where pronamespace = 'public'::regnamespace and proname like 'postbud\_%'
    loop
      execute format('revoke execute on function %s from %I', function, from_role);
    end loop;
  end if;
  perform postbud_apply_grants_1(tables);
end
$$;--> statement-breakpoint
-- What happened stays on record: the audit trail, the replays and the log of what operators did are added to, and
-- nothing else. TRUNCATE fires no trigger of rows.
create or replace function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only: write a new row instead', tg_table_name using errcode = 'restrict_violation';
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
create or replace trigger lanes_forgotten after delete on lanes
  for each row when (old.home_id is null) execute function postbud_forget_home_lane_1();--> statement-breakpoint
-- These have no primary key. Without an identity a publication of all tables would have their changes refused.
alter table lanes replica identity full;--> statement-breakpoint
alter table leases replica identity full;--> statement-breakpoint
alter table last_pass replica identity full;--> statement-breakpoint
alter table reserved_positions replica identity full;

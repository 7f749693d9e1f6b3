CREATE TYPE "public"."delivery_state" AS ENUM('delivered', 'pending', 'failing', 'dead_lettered');--> statement-breakpoint
CREATE SEQUENCE "public"."delivery_positions" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
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
	CONSTRAINT "awaiting_fan_out_topic_created_at_seq_pk" PRIMARY KEY("topic","created_at","seq")
);
--> statement-breakpoint
CREATE TABLE "deliveries" (
	"lane_id" bigint NOT NULL,
	"position" bigint NOT NULL,
	"event_id" uuid NOT NULL,
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
	"attempt_log" jsonb,
	CONSTRAINT "deliveries_lane_id_position_pk" PRIMARY KEY("lane_id","position"),
	CONSTRAINT "deliveries_delivered" CHECK ((state = 'delivered') = (delivered_at is not null)),
	CONSTRAINT "deliveries_dead_lettered" CHECK ((state = 'dead_lettered') = (dead_lettered_at is not null)),
	CONSTRAINT "deliveries_failing" CHECK (state <> 'failing' or (attempts > 0 and next_attempt_at is not null))
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
	"open" smallint NOT NULL,
	"failing" smallint DEFAULT 0 NOT NULL,
	"dead_lettered" smallint DEFAULT 0 NOT NULL,
	"state" "delivery_state" GENERATED ALWAYS AS (case when dead_lettered > 0 then 'dead_lettered'::delivery_state when failing > 0 then 'failing'::delivery_state when open > 0 then 'pending'::delivery_state else 'delivered'::delivery_state end) STORED NOT NULL,
	CONSTRAINT "events_counters" CHECK (open >= 0 and failing between 0 and open and dead_lettered >= 0)
);
--> statement-breakpoint
CREATE TABLE "identity_subjects" (
	"subject" text PRIMARY KEY NOT NULL,
	"first_event_id" uuid NOT NULL,
	"first_seen_at" timestamp with time zone DEFAULT now() NOT NULL
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
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "lanes_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"ordering_key" text NOT NULL,
	"head" bigint DEFAULT 0 NOT NULL,
	"tail" bigint NOT NULL,
	"careful_to" bigint DEFAULT 0 NOT NULL,
	"due_at" timestamp with time zone,
	"lease_token" uuid,
	CONSTRAINT "lanes_lease" CHECK (lease_token is null or due_at is not null),
	CONSTRAINT "lanes_head" CHECK (head <= tail)
);
--> statement-breakpoint
CREATE TABLE "notifications" (
	"event_id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"email" text,
	"subject" text NOT NULL,
	"recorded_at" timestamp with time zone DEFAULT now() NOT NULL,
	"mailed_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "payment_intents" (
	"id" text PRIMARY KEY NOT NULL,
	"booking_id" text NOT NULL,
	"provider" text NOT NULL,
	"amount_minor" bigint NOT NULL,
	"currency" text NOT NULL,
	"state" text DEFAULT 'created' NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"changed_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "payment_intents_amount" CHECK (amount_minor >= 0),
	CONSTRAINT "payment_intents_state" CHECK (state in ('created', 'captured', 'failed', 'refunded'))
);
--> statement-breakpoint
CREATE TABLE "replays" (
	"id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"requested_at" timestamp with time zone NOT NULL,
	"requested_by" text NOT NULL,
	"reason" text,
	"request" jsonb NOT NULL,
	"matched" integer NOT NULL,
	"replayed" integer NOT NULL
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
	CONSTRAINT "webhook_rejections_provider_reason_day_pk" PRIMARY KEY("provider","reason","day")
);
--> statement-breakpoint
CREATE INDEX "deliveries_event" ON "deliveries" USING brin ("event_id" uuid_minmax_multi_ops) WITH (pages_per_range=16,autosummarize=true);--> statement-breakpoint
CREATE INDEX "deliveries_retries" ON "deliveries" USING btree ("next_attempt_at") WHERE next_attempt_at is not null;--> statement-breakpoint
CREATE INDEX "deliveries_dead_letters" ON "deliveries" USING btree ("dead_lettered_at") WHERE dead_lettered_at is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "events_dedupe" ON "events" USING btree ("topic","dedupe_key") WHERE dedupe_key is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "lanes_subscription_key" ON "lanes" USING btree ("topic","subscriber","ordering_key");--> statement-breakpoint
CREATE INDEX "lanes_due" ON "lanes" USING btree ("topic","subscriber","due_at") WHERE due_at is not null;
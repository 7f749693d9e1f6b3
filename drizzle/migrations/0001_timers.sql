CREATE TABLE "timer_dedupe_keys" (
	"topic" text NOT NULL,
	"dedupe_key" text NOT NULL,
	"timer_id" uuid,
	"at" timestamp with time zone NOT NULL,
	CONSTRAINT "timer_dedupe_keys_topic_dedupe_key_pk" PRIMARY KEY("topic","dedupe_key")
);
--> statement-breakpoint
CREATE TABLE "timers" (
	"id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"timer_key" text,
	"due_at" timestamp with time zone NOT NULL,
	"seq" bigint GENERATED ALWAYS AS IDENTITY (sequence name "timers_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"payload" jsonb NOT NULL,
	"version" smallint NOT NULL,
	"producer" text NOT NULL,
	"ordering_key" text NOT NULL,
	"dedupe_key" text,
	"correlation_id" text NOT NULL,
	"causation_id" text,
	"traceparent" text,
	"set_at" timestamp with time zone NOT NULL,
	"erased_at" timestamp with time zone,
	"refused_at" timestamp with time zone,
	CONSTRAINT "timers_due_at" CHECK (due_at >= '1970-01-01 00:00:00Z' and due_at < '10000-01-01 00:00:00Z')
);
--> statement-breakpoint
ALTER TABLE "events" ADD COLUMN "due_at" timestamp with time zone;--> statement-breakpoint
CREATE UNIQUE INDEX "timers_key" ON "timers" USING btree ("timer_key","topic") WHERE timer_key is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "timers_due" ON "timers" USING btree ("due_at","seq") WHERE refused_at is null;

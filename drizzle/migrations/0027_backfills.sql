-- The older deliveries that a subscription is given later. While a row is open, the subscription's lanes deliver nothing
-- behind its front.
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
CREATE UNIQUE INDEX "backfills_open" ON "backfills" USING btree ("topic","subscriber") WHERE ended_at is null;
--> statement-breakpoint
CREATE INDEX "backfills_requested" ON "backfills" USING btree ("requested_at","id");
--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "backfilled" boolean DEFAULT false NOT NULL;
--> statement-breakpoint
-- What can't be backfilled any more, for previews.
CREATE TABLE "pruned_events" (
	"topic" text NOT NULL,
	"day" date NOT NULL,
	"events" bigint NOT NULL,
	CONSTRAINT "pruned_events_topic_day_pk" PRIMARY KEY("topic","day")
);

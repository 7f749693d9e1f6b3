-- Dead letters that their lane (or their key) may not pass until they are replayed or dismissed. A row counts only while
-- its delivery is a dead letter that nobody dismissed, so that a release that knows nothing of halts can end one.
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
CREATE INDEX "halts_subscription" ON "halts" USING btree ("topic","subscriber");
--> statement-breakpoint
-- Lanes that failed as if nobody was there, since their subscriber last answered.
CREATE TABLE "absences" (
	"subscriber" text NOT NULL,
	"kind" text NOT NULL,
	"lane_id" bigint NOT NULL,
	"lane_key" text NOT NULL,
	"failures" integer NOT NULL,
	CONSTRAINT "absences_subscriber_kind_lane_id_lane_key_pk" PRIMARY KEY("subscriber","kind","lane_id","lane_key")
);
--> statement-breakpoint
-- Subscribers that do not answer. Their lanes wait, except for one delivery at a time that probes.
CREATE TABLE "outages" (
	"subscriber" text PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"message" text NOT NULL,
	"opened_at" timestamp with time zone NOT NULL,
	"probes" integer DEFAULT 0 NOT NULL,
	"probed_at" timestamp with time zone,
	"next_probe_at" timestamp with time zone NOT NULL,
	"recovered_at" timestamp with time zone,
	CONSTRAINT "outages_probes" CHECK (probes >= 0)
);

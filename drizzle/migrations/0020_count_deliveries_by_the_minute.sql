CREATE TABLE "throughput_minutes" (
	"minute" timestamp with time zone NOT NULL,
	"topic" text NOT NULL,
	"delivered" bigint NOT NULL,
	"first_attempt" bigint NOT NULL,
	"dead_lettered" bigint NOT NULL,
	CONSTRAINT "throughput_minutes_minute_topic_pk" PRIMARY KEY("minute","topic")
);
--> statement-breakpoint
ALTER TABLE "throughput" ADD COLUMN "minute" smallint DEFAULT 0 NOT NULL;

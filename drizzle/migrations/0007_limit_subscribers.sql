CREATE TABLE "subscriber_limits" (
	"subscriber" text PRIMARY KEY NOT NULL,
	"rate_count" integer,
	"rate_ms" bigint,
	"concurrency" integer,
	"taken_until" timestamp with time zone DEFAULT '-infinity' NOT NULL,
	"held" bigint[] DEFAULT '{}' NOT NULL,
	CONSTRAINT "subscriber_limits_given" CHECK (coalesce(rate_count, 1) > 0 and coalesce(concurrency, 1) > 0 and (rate_count is null) = (rate_ms is null))
);

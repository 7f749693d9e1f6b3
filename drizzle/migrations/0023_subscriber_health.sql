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
)
-- Relays rewrite the rows of the current hour every few seconds; with room on their page that changes no index.
WITH (fillfactor = 50);--> statement-breakpoint
CREATE INDEX "subscriber_health_start" ON "subscriber_health" USING btree ("period","starts_at","topic");--> statement-breakpoint
-- Adds two histograms, bucket by bucket; a shorter one counts as zero at its end.
create or replace function postbud_add_1(one bigint[], other bigint[]) returns bigint[]
language sql immutable parallel safe as $$
  select array(
    select coalesce(a, 0) + coalesce(b, 0) from unnest(one, other) with ordinality as bucket(a, b, number) order by number
  )
$$;--> statement-breakpoint
create or replace aggregate postbud_sum_1(bigint[]) (
  sfunc = postbud_add_1, stype = bigint[], initcond = '{}', parallel = safe
);

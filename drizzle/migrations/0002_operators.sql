CREATE TABLE "backlog" (
	"topic" text NOT NULL,
	"subscriber" text NOT NULL,
	"shard" smallint NOT NULL,
	"pending" bigint NOT NULL,
	"failing" bigint NOT NULL,
	"dead_lettered" bigint NOT NULL,
	"last_delivered_at" timestamp with time zone,
	"last_failed_at" timestamp with time zone,
	CONSTRAINT "backlog_topic_subscriber_shard_pk" PRIMARY KEY("topic","subscriber","shard")
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
CREATE TABLE "last_pass" (
	"at" timestamp with time zone
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
	"reason" text,
	CONSTRAINT "operator_actions_action" CHECK (action in ('retry', 'skip', 'pause', 'resume', 'reveal'))
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
CREATE TABLE "throughput" (
	"hour" timestamp with time zone NOT NULL,
	"topic" text NOT NULL,
	"shard" smallint NOT NULL,
	"delivered" bigint NOT NULL,
	"first_attempt" bigint NOT NULL,
	"dead_lettered" bigint NOT NULL,
	CONSTRAINT "throughput_hour_topic_shard_pk" PRIMARY KEY("hour","topic","shard")
);
--> statement-breakpoint
DROP INDEX "deliveries_retries";--> statement-breakpoint
DROP INDEX "deliveries_dead_letters";--> statement-breakpoint
ALTER TABLE "replays" ALTER COLUMN "topic" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "error_group" text;--> statement-breakpoint
-- The table is locked from here to the commit: what is counted below can't change meanwhile.
WITH "dead" AS (
  SELECT "lane_id", "position", "topic", "subscriber", coalesce("attempt_log" -> -1 ->> 'kind', 'unknown') AS "kind"
  FROM "deliveries" JOIN "lanes" ON "lanes"."id" = "lane_id" WHERE "state" = 'dead_lettered'
), "grouped" AS (
  SELECT *, left(md5(concat_ws(' ', "topic", "subscriber", "kind")), 16) AS "key" FROM "dead"
), "error" AS (
  INSERT INTO "error_groups" ("key", "topic", "subscriber", "kind", "message", "dead_lettered")
  SELECT "key", "topic", "subscriber", "kind", 'died before errors were told apart', count(*)
  FROM "grouped" GROUP BY 1, 2, 3, 4
)
UPDATE "deliveries" SET "error_group" = "grouped"."key" FROM "grouped"
WHERE "deliveries"."lane_id" = "grouped"."lane_id" AND "deliveries"."position" = "grouped"."position";--> statement-breakpoint
INSERT INTO "backlog" ("topic", "subscriber", "shard", "pending", "failing", "dead_lettered", "last_delivered_at")
SELECT "topic", "subscriber", 0, count(*) FILTER (WHERE "state" = 'pending'),
  count(*) FILTER (WHERE "state" = 'failing'), count(*) FILTER (WHERE "state" = 'dead_lettered'), max("delivered_at")
FROM "deliveries" JOIN "lanes" ON "lanes"."id" = "lane_id" GROUP BY 1, 2
UNION ALL
SELECT "topic", '', 0, count(*) FILTER (WHERE "state" = 'pending'), count(*) FILTER (WHERE "state" = 'failing'),
  count(*) FILTER (WHERE "state" = 'dead_lettered'), NULL
FROM "events" WHERE NOT EXISTS (SELECT FROM "awaiting_fan_out" WHERE "event_id" = "events"."id") GROUP BY 1;--> statement-breakpoint
INSERT INTO "last_pass" ("at") VALUES (NULL);--> statement-breakpoint
-- A few rows that are rewritten all the time.
ALTER TABLE "backlog" SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);--> statement-breakpoint
ALTER TABLE "throughput" SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);--> statement-breakpoint
CREATE INDEX "error_groups_subscription" ON "error_groups" USING btree ("topic","subscriber");--> statement-breakpoint
CREATE INDEX "operator_actions_at" ON "operator_actions" USING btree ("at","id");--> statement-breakpoint
CREATE INDEX "deliveries_errors" ON "deliveries" USING btree ("error_group","dead_lettered_at","lane_id","position") WHERE error_group is not null;--> statement-breakpoint
CREATE INDEX "deliveries_replays" ON "deliveries" USING btree ("replayed_at") WHERE replayed_at is not null;--> statement-breakpoint
CREATE INDEX "replays_requested" ON "replays" USING btree ("requested_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_dead_letters" ON "deliveries" USING btree ("dead_lettered_at","lane_id","position") WHERE dead_lettered_at is not null;--> statement-breakpoint
ALTER TABLE "deliveries" ADD CONSTRAINT "deliveries_error_group" CHECK ((state = 'dead_lettered') = (error_group is not null));
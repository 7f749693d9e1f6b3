-- Replays that put their deliveries back little by little. The records of replays never change, so their progress is here.
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
CREATE INDEX "paced_replays_open" ON "paced_replays" USING btree ("next_at") WHERE ended_at is null;
--> statement-breakpoint
-- The deliveries that a paced replay has not come to yet.
CREATE TABLE "planned_replays" (
	"replay_id" uuid NOT NULL,
	"position" bigint NOT NULL,
	"lane_id" bigint NOT NULL,
	"ended_at" timestamp with time zone NOT NULL,
	CONSTRAINT "planned_replays_replay_id_position_lane_id_pk" PRIMARY KEY("replay_id","position","lane_id")
);
--> statement-breakpoint
CREATE TABLE "replay_steps" (
	"replay_id" uuid NOT NULL,
	"at" timestamp with time zone NOT NULL,
	CONSTRAINT "replay_steps_replay_id_at_pk" PRIMARY KEY("replay_id","at")
);
--> statement-breakpoint
-- When a replay put deliveries back: their "replayed_at".
CREATE VIEW "replay_instants" AS
	select id as replay_id, requested_at as at from replays union all select replay_id, at from replay_steps;
--> statement-breakpoint
ALTER TABLE "operator_actions" ADD COLUMN "replay_id" uuid;
--> statement-breakpoint
CREATE INDEX "operator_actions_replay" ON "operator_actions" USING btree ("replay_id") WHERE replay_id is not null;

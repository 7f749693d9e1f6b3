-- The index of identifiers, which the cron fills behind the relay: nothing that emits or delivers writes to it.
CREATE TABLE "event_blocks" (
	"from_position" bigint PRIMARY KEY NOT NULL,
	"event_ids" bytea NOT NULL,
	"trimmed_at" timestamp with time zone
);--> statement-breakpoint
-- Not compressed, so that one id is read without the others.
ALTER TABLE "event_blocks" ALTER COLUMN "event_ids" SET STORAGE EXTERNAL;--> statement-breakpoint
CREATE TABLE "identifiers" (
	"bucket" smallint NOT NULL,
	"from_position" bigint NOT NULL,
	"hashes" integer[] NOT NULL,
	"ends" integer[] NOT NULL,
	"ordinals" smallint[] NOT NULL,
	CONSTRAINT "identifiers_bucket_from_position_pk" PRIMARY KEY("bucket","from_position")
);--> statement-breakpoint
CREATE TABLE "indexed_positions" (
	"is_only_row" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"from_position" bigint NOT NULL,
	"to_position" bigint NOT NULL,
	CONSTRAINT "indexed_positions_only_row" CHECK (is_only_row),
	CONSTRAINT "indexed_positions_range" CHECK (0 <= from_position and from_position <= to_position)
);

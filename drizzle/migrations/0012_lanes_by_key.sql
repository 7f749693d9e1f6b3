ALTER TABLE "lanes" ALTER COLUMN "ordering_key" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "lane_key" text;--> statement-breakpoint
ALTER TABLE "lanes" ADD COLUMN "slot" smallint;--> statement-breakpoint
ALTER TABLE "lanes" ADD COLUMN "held_key" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "lanes" ADD COLUMN "home_id" bigint;--> statement-breakpoint
ALTER TABLE "lanes" ADD COLUMN "waits_for_version" smallint;--> statement-breakpoint
CREATE INDEX "deliveries_keys" ON "deliveries" USING btree ("lane_id","lane_key","position") WHERE lane_key is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "lanes_slots" ON "lanes" USING btree ("topic","subscriber","slot","held_key") WHERE slot is not null;--> statement-breakpoint
CREATE INDEX "lanes_in_trouble" ON "lanes" USING btree ("home_id") WHERE home_id is not null;--> statement-breakpoint
ALTER TABLE "lanes" ADD CONSTRAINT "lanes_kind" CHECK ((slot is null) = (ordering_key is not null) and (home_id is null) = (held_key = ''));--> statement-breakpoint
ALTER TABLE "lanes" ADD CONSTRAINT "lanes_slots_of_this_release" CHECK (slot is null or needed_version is not distinct from 32767);
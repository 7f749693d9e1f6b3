ALTER TABLE "awaiting_fan_out" ADD COLUMN "subscribers" text[];--> statement-breakpoint
ALTER TABLE "events" ADD COLUMN "subscribers" text[];--> statement-breakpoint
ALTER TABLE "lanes" ADD COLUMN "needed_version" smallint;--> statement-breakpoint
CREATE INDEX "awaiting_fan_out_unaddressed" ON "awaiting_fan_out" USING btree ("topic","created_at") WHERE subscribers is null;
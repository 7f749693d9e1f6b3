DROP INDEX "incidents_open";--> statement-breakpoint
ALTER TABLE "incidents" ADD COLUMN "error_group" text DEFAULT '' NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "incidents_open" ON "incidents" USING btree ("topic","subscriber","kind","error_group") WHERE closed_at is null;
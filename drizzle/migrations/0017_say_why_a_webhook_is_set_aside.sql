ALTER TABLE "webhooks_set_aside" ADD COLUMN "reason" text DEFAULT 'no_intent' NOT NULL;--> statement-breakpoint
ALTER TABLE "webhooks_set_aside" ADD COLUMN "detail" text;--> statement-breakpoint
ALTER TABLE "webhooks_set_aside" ADD COLUMN "statements" jsonb;--> statement-breakpoint
CREATE INDEX "webhooks_set_aside_incidents" ON "webhooks_set_aside" USING btree ("provider","reason") WHERE reason <> 'no_intent';
CREATE TABLE "webhooks_set_aside" (
	"event_id" uuid PRIMARY KEY NOT NULL,
	"provider" text NOT NULL,
	"intent_id" text NOT NULL,
	"provider_event_id" text NOT NULL,
	"correlation_id" text NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"seq" bigint NOT NULL,
	"outcome" jsonb NOT NULL,
	"set_aside_at" timestamp with time zone NOT NULL,
	"unclaimed_at" timestamp with time zone
);
--> statement-breakpoint
ALTER TABLE "payment_intents" ADD COLUMN "parts" jsonb DEFAULT '[]'::jsonb NOT NULL;--> statement-breakpoint
CREATE INDEX "webhooks_set_aside_intent" ON "webhooks_set_aside" USING btree ("provider","intent_id");--> statement-breakpoint
CREATE INDEX "webhooks_set_aside_waiting" ON "webhooks_set_aside" USING btree ("set_aside_at") WHERE unclaimed_at is null;
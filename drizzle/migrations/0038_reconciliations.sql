-- How far each provider has been asked for the webhooks that never came.
CREATE TABLE "reconciliations" (
	"provider" text PRIMARY KEY NOT NULL,
	"begun_at" timestamp with time zone DEFAULT now() NOT NULL,
	"step" bigint DEFAULT 0 NOT NULL,
	"next_at" timestamp with time zone NOT NULL,
	"walk_from" timestamp with time zone,
	"walk_until" timestamp with time zone,
	"cursor" text,
	"checked_until" timestamp with time zone,
	"succeeded_at" timestamp with time zone,
	"failed_at" timestamp with time zone,
	"error" text,
	"failures" integer DEFAULT 0 NOT NULL,
	"found" bigint DEFAULT 0 NOT NULL,
	"found_at" timestamp with time zone,
	CONSTRAINT "reconciliations_walk" CHECK ((walk_from is null) = (walk_until is null) and (cursor is null or walk_from is not null)),
	CONSTRAINT "reconciliations_numbers" CHECK (failures >= 0 and found >= 0)
);
--> statement-breakpoint
-- Null for what came as a webhook, and for releases that know no reconciliation.
ALTER TABLE "webhook_receipts" ADD COLUMN "reconciled_at" timestamp with time zone;
--> statement-breakpoint
-- With a default, because earlier releases and producers elsewhere record intents too. Of those that are recorded already,
-- the open and the newest are asked about: all of ten million would keep the new ones waiting for months.
ALTER TABLE "payment_intents" ADD COLUMN "ask_at" timestamp with time zone;
--> statement-breakpoint
ALTER TABLE "payment_intents" ALTER COLUMN "ask_at" SET DEFAULT now() + interval '15 minutes';
--> statement-breakpoint
UPDATE "payment_intents" SET "ask_at" = now() + interval '15 minutes'
	WHERE provider = 'walletpayments' and state <> 'failed'
		and (state = 'created' or changed_at > now() - interval '30 days');
--> statement-breakpoint
CREATE INDEX "payment_intents_asks" ON "payment_intents" USING btree ("provider","state","ask_at") WHERE ask_at is not null and state <> 'failed';

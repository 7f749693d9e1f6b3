ALTER TABLE "backlog" ADD COLUMN "delivered_total" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "backlog" ADD COLUMN "failed_total" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "backlog" ADD COLUMN "dead_lettered_total" bigint DEFAULT 0 NOT NULL;
DROP INDEX "deliveries_event";--> statement-breakpoint
CREATE INDEX "deliveries_event" ON "deliveries" USING brin ("event_id" uuid_minmax_multi_ops) WITH (pages_per_range=64,autosummarize=true);
ALTER TABLE "pruned_events" ADD COLUMN "reached" uuid;

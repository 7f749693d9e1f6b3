-- Releases that do not write it leave null, which the log shows as unknown.
ALTER TABLE "replays" ADD COLUMN "recipients" jsonb;

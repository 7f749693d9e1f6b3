-- Committed before a mail is sent, so that no retry and no replay sends it again.
alter table "notifications" add column "mail_begun_at" timestamp with time zone;--> statement-breakpoint
-- Until now every text of a payload that looked like an id was indexed, personal ones in webhooks' bodies among them. The
-- indexer of this release finds rule 1, deletes the index and begins anew. Not here: the release before it would fill it
-- again until it is replaced.
alter table "indexed_positions" add column "rule" smallint default 1 not null;

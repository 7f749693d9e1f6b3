-- Committed before a mail is sent, so that no retry and no replay sends it again.
alter table "notifications" add column "mail_begun_at" timestamp with time zone;

-- A settlement rewrites a delivery once and an event's counters about once: room on the page keeps both HOT.
ALTER TABLE deliveries SET (fillfactor = 60);--> statement-breakpoint
ALTER TABLE events SET (fillfactor = 75);--> statement-breakpoint
-- Both are small and rewritten all the time.
ALTER TABLE lanes SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);--> statement-breakpoint
ALTER TABLE awaiting_fan_out SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);--> statement-breakpoint
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit trail is append-only: write a new row instead' USING ERRCODE = 'restrict_violation';
END
$$;--> statement-breakpoint
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log
  FOR EACH ROW EXECUTE FUNCTION refuse_change();
--> statement-breakpoint
-- A producer that hangs with its transaction open holds back its topics: the database ends it after a minute. And a
-- statement whose client is gone (a handler that ran out of time) ends soon after.
DO $$
BEGIN
  EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = ''60s''', current_database());
  EXECUTE format('ALTER DATABASE %I SET client_connection_check_interval = ''2s''', current_database());
EXCEPTION WHEN insufficient_privilege OR invalid_parameter_value THEN
  RAISE NOTICE 'set idle_in_transaction_session_timeout = 60s and client_connection_check_interval = 2s by hand';
END
$$;

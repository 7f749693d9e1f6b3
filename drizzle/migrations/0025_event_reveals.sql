-- The event whose personal data was revealed: before fan-out it has no delivery to name.
ALTER TABLE "operator_actions" ADD COLUMN "event_id" uuid;
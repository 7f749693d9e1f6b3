CREATE TABLE "alerts" (
	"incident_id" uuid NOT NULL,
	"revision" integer NOT NULL,
	"channel" text NOT NULL,
	"due_at" timestamp with time zone,
	"attempts" smallint DEFAULT 0 NOT NULL,
	"attempted_at" timestamp with time zone,
	"sent_at" timestamp with time zone,
	"last_error" text,
	CONSTRAINT "alerts_incident_id_revision_channel_pk" PRIMARY KEY("incident_id","revision","channel"),
	CONSTRAINT "alerts_sent" CHECK (sent_at is null or due_at is null)
);
--> statement-breakpoint
CREATE INDEX "alerts_due" ON "alerts" USING btree ("channel","due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "alerts_attempted" ON "alerts" USING btree ("channel","attempted_at");

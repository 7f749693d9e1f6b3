CREATE TABLE "edge_counts" (
	"source" text NOT NULL,
	"outcome" text NOT NULL,
	"day" date NOT NULL,
	"count" bigint NOT NULL,
	"last_at" timestamp with time zone NOT NULL,
	"recent_at" timestamp with time zone[] DEFAULT '{}' NOT NULL,
	CONSTRAINT "edge_counts_source_outcome_day_pk" PRIMARY KEY("source","outcome","day")
);

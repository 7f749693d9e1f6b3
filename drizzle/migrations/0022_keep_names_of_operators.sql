CREATE TABLE "operator_names" (
	"subject" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"seen_at" timestamp with time zone NOT NULL,
	CONSTRAINT "operator_names_name" CHECK (char_length("operator_names"."name") between 1 and 60)
);

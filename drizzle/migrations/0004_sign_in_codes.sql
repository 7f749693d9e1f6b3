CREATE TABLE "sign_in_codes" (
	"hash" "bytea" PRIMARY KEY NOT NULL,
	"sealed" "bytea" NOT NULL,
	"expires_at" timestamp with time zone NOT NULL
);

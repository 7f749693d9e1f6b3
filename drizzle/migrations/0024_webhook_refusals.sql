ALTER TABLE "webhook_rejections" ADD COLUMN "recent_at" timestamp with time zone[] DEFAULT '{}' NOT NULL;

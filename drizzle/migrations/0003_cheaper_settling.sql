ALTER TABLE "deliveries" DROP CONSTRAINT "deliveries_delivered";--> statement-breakpoint
ALTER TABLE "deliveries" DROP CONSTRAINT "deliveries_dead_lettered";--> statement-breakpoint
ALTER TABLE "deliveries" DROP CONSTRAINT "deliveries_error_group";--> statement-breakpoint
ALTER TABLE "deliveries" DROP CONSTRAINT "deliveries_failing";--> statement-breakpoint
ALTER TABLE "deliveries" ADD CONSTRAINT "deliveries_state" CHECK (case state
        when 'delivered' then delivered_at is not null and dead_lettered_at is null and error_group is null
        when 'dead_lettered' then dead_lettered_at is not null and error_group is not null and delivered_at is null
        else delivered_at is null and dead_lettered_at is null and error_group is null
          and (state = 'pending' or (attempts > 0 and next_attempt_at is not null))
      end);--> statement-breakpoint
-- A settled delivery is longer than a new one: with less room half of a page's rows would move to another, and their
-- index entries with them.
ALTER TABLE "deliveries" SET (fillfactor = 42);

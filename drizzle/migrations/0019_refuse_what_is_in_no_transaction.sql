create or replace trigger deferred_in_transaction before insert on awaiting_fan_out
for each row when (current_setting('postbud.first_write', true) = statement_timestamp()::text)
execute function postbud_require_transaction_1();
--> statement-breakpoint
create constraint trigger in_transaction after insert on awaiting_fan_out deferrable initially deferred
for each row when (current_setting('postbud.first_write', true) = statement_timestamp()::text)
execute function postbud_require_transaction_1();
--> statement-breakpoint
create or replace trigger deferred_in_transaction before insert or update or delete on timers
for each row when (current_setting('postbud.first_write', true) = statement_timestamp()::text)
execute function postbud_require_transaction_1();
--> statement-breakpoint
create constraint trigger in_transaction after insert or update or delete on timers deferrable initially deferred
for each row when (current_setting('postbud.first_write', true) = statement_timestamp()::text)
execute function postbud_require_transaction_1();

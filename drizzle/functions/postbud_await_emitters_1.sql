-- Waits for transactions that have emitted to end, for some milliseconds at most. `emit` takes a shared lock on the number of its
-- backend; whoever gets that lock alone knows that the transaction has ended, and lets go of it at once: a lock of the session
-- within one expression, which nothing interrupts, and a lock of the transaction by the end of a subtransaction.
-- @returns whether all have ended.
create or replace function postbud_await_emitters_1(emitters int[], may_wait boolean) returns boolean language plpgsql as $$
declare
  emitter int;
begin
  foreach emitter in array emitters loop
    continue when pg_try_advisory_lock(36963, emitter) and pg_advisory_unlock(36963, emitter);
    if not may_wait then
      return false;
    end if;
    begin
      perform set_config('lock_timeout', '8ms', true);
      perform pg_advisory_xact_lock(36963, emitter);
      raise exception using errcode = 'PB005', message = 'the transaction has ended';
    exception
      when lock_not_available then
        return false;
      when sqlstate 'PB005' then
        null;
    end;
  end loop;
  return true;
end
$$;

/**
 * What a chaos run adds to the tables of the bus, in a schema `chaos`:
 *
 * - a clock that can be moved, which the bus takes for `clock_timestamp()`. It stands in a file (see `clock.ts`) that
 *   the relay processes read as well, so that time passes for all of them at the same instant. It pauses before and
 *   after it is read, as a backend does that loses its turn: the producers' with a chance of their own;
 * - a few more pauses, while markers are taken;
 * - every row of the log and of the lanes' journals, every version of every exception, timer and outage, and the end of a timer or
 *   an outage, written by triggers in the transaction that makes it;
 * - `effects`, where transactional handlers leave their trace.
 */
export const INSTRUMENTS = `
  create schema chaos;

  create function chaos.now() returns timestamptz language sql volatile as $$
    select pg_catalog.clock_timestamp()
      + split_part(pg_read_file(current_setting('chaos.clock')), ' ', 1)::float8 * interval '1 millisecond'
  $$;

  create function chaos.pause() returns void language plpgsql volatile as $$
  declare
    clock float8[] := string_to_array(pg_read_file(current_setting('chaos.clock')), ' ');
    mine int := case when current_setting('application_name') = 'producer' then 4 else 2 end;
  begin
    if random() < clock[mine] then
      perform pg_sleep(random() * clock[mine + 1] / 1000);
    end if;
  end $$;

  create function chaos.clock_timestamp() returns timestamptz language plpgsql volatile as $$
  declare
    at timestamptz;
  begin
    perform chaos.pause();
    at := chaos.now();
    perform chaos.pause();
    return at;
  end $$;

  create function chaos.pause_at_row() returns trigger language plpgsql as $$
  begin
    if random() < 0.3 then
      perform chaos.pause();
    end if;
    return old;
  end $$;

  create trigger pause before delete on public.awaiting
    for each row execute function chaos.pause_at_row();

  create table chaos.versions (
    id bigserial primary key, at timestamptz not null, by text not null, what text not null, stored jsonb not null,
    transaction xid8 not null default pg_current_xact_id()
  );

  create function chaos.keep_version() returns trigger language plpgsql as $$
  begin
    insert into chaos.versions (at, by, what, stored)
    values (chaos.now(), current_setting('application_name'), tg_table_name,
      case when tg_op = 'DELETE' then to_jsonb(old) || '{"is_gone": true}' else to_jsonb(new) end);
    return null;
  end $$;

  create trigger versions after insert on public.log for each row execute function chaos.keep_version();
  create trigger versions after insert on public.journal for each row execute function chaos.keep_version();
  create trigger versions after insert or update on public.exceptions
    for each row execute function chaos.keep_version();

  create trigger versions after insert or update or delete on public.timers
    for each row execute function chaos.keep_version();
  create trigger versions after insert or update or delete on public.outages
    for each row execute function chaos.keep_version();

  create table chaos.effects (id bigserial primary key, event_id uuid not null, subscriber text not null);
`;

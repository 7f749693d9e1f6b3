/**
 * The statements that make the outbox's tables, for a migration of the service. Run again they change nothing, but
 * that a table of an earlier release gets what it lacks.
 *
 * `postbud_outbox` has what is to be forwarded: `place` is the order of creation; `event` a CloudEvent; `id` its id, by which
 * the bus knows it when it comes twice. `postbud_outbox_refused` has what the bus refused for good. Such an event is set
 * aside while it is in both and nothing was decided; `event` is kept of one that was discarded.
 *
 * The triggers refuse what `record` wrote outside of a transaction, as `postbud_require_transaction_1` does at the bus.
 */
export const OUTBOX_TABLE = `
  create table if not exists postbud_outbox (
    place bigint generated always as identity primary key,
    topic text not null,
    id text not null,
    event jsonb not null,
    recorded_at timestamptz not null default clock_timestamp(),
    unique (topic, id)
  );
  create table if not exists postbud_outbox_refused (
    place bigint not null,
    recorded_at timestamptz not null,
    topic text not null,
    id text not null,
    code text not null,
    reason text not null,
    refused_at timestamptz not null default clock_timestamp(),
    decision text check (decision in ('retry', 'discard')),
    decided_because text,
    decided_at timestamptz,
    event jsonb,
    primary key (place, recorded_at)
  );
  create or replace function postbud_require_transaction() returns trigger language plpgsql as $$
  begin
    if tg_when = 'BEFORE' then
      execute format('set constraints %I.postbud_in_transaction deferred', tg_table_schema);
      return new;
    end if;
    if current_setting('postbud.first_write', true) = statement_timestamp()::text
      and coalesce(current_query(), '') !~* '^\\s*(commit|end|prepare)\\M'
    then
      raise exception using errcode = 'PB007', message = 'PB007: this is not in a transaction';
    end if;
    return null;
  end
  $$;
  do $$
  begin
    if not exists (
      select from pg_trigger where tgrelid = 'postbud_outbox'::regclass and tgname = 'postbud_in_transaction'
    ) then
      create trigger postbud_deferred_in_transaction before insert on postbud_outbox
        for each row when (current_setting('postbud.first_write', true) = statement_timestamp()::text)
        execute function postbud_require_transaction();
      create constraint trigger postbud_in_transaction after insert on postbud_outbox deferrable initially deferred
        for each row when (current_setting('postbud.first_write', true) = statement_timestamp()::text)
        execute function postbud_require_transaction();
    end if;
  end
  $$;`;

/**
 * The class of the advisory lock that a transaction holds, shared, from its first event to its end. The key's second half
 * is a floor: the last place that was drawn before it, of which the lower 31 bits. Its own places are higher. Earlier
 * releases of the package take 0, the floor of a transaction whose places are not known.
 */
export const RECORDING = 0x9062;

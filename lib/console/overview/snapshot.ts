import { MINUTE } from '../../platform/time.ts';

/** The statement's result: who holds the oldest snapshot. Times are epoch milliseconds. */
export interface FoundSnapshot {
  readonly held_by: 'session' | 'prepared_transaction' | 'standby' | 'replication_slot';
  /** The session's program, the prepared transaction's `gid`, the standby or the slot. */
  readonly name: string | null;
  readonly role: string | null;
  readonly pid: number | null;
  /** Null: this one, or all. */
  readonly database: string | null;
  readonly state: string | null;
  /** Null: not known. Postgres dates neither slots nor standbys, and other roles’ sessions only to `pg_read_all_stats`. */
  readonly since: number | null;
  readonly ms: number | null;
  /** How many transactions have begun since. */
  readonly transactions: number;
}

/** Reports are done by then, and vacuum is not late yet. */
const OLD_MS = 5 * MINUTE;

/** Where the time is not known. Some minutes of a few hundred transactions a second. */
const MANY_TRANSACTIONS = 100_000;

/** Whether it has been held for so long that operators are to know. */
export const isOld = ({ ms, transactions }: FoundSnapshot): boolean =>
  ms === null ? transactions >= MANY_TRANSACTIONS : ms >= OLD_MS;

/**
 * Selects the holder of the oldest snapshot that dead rows of the bus are kept for, as the JSON of a `FoundSnapshot`, if
 * there is any.
 *
 * A transaction of another database counts from its number on, which every snapshot here knows. Vacuum does not count, nor
 * does a slot's `catalog_xmin`, which keeps rows of the system's tables alone. Of several with the same snapshot it is the
 * one that began first: the others saw it running. A transaction that takes a new snapshot for each statement seems older
 * than its snapshot is, since nothing tells it from one that keeps its first.
 */
export const OLDEST_SNAPSHOT = `
    select row_to_json(oldest) from (
      select held_by, name, role, pid, nullif(database, current_database()) as database, state,
        extract(epoch from since) * 1000 as since, extract(epoch from clock_timestamp() - since) * 1000 as ms, transactions
      from (
        select case backend_type when 'walsender' then 'standby' else 'session' end as held_by, application_name as name,
          usename as role, pid, datname as database, state, xact_start as since, greatest(age(backend_xid),
            case when datname is null or datname = current_database() then age(backend_xmin) end) as transactions
        from pg_stat_activity
        where pid <> pg_backend_pid() and leader_pid is null and pid not in (select pid from pg_stat_progress_vacuum)
        union all
        select 'prepared_transaction', gid, owner, null, database, null, prepared, age(transaction)
        from pg_prepared_xacts
        union all
        select 'replication_slot', slot_name, null, null, null, case when active then 'active' else 'inactive' end, null,
          age(xmin)
        from pg_replication_slots
      ) as holder
      where transactions is not null
      order by transactions desc, since limit 1
    ) as oldest`;

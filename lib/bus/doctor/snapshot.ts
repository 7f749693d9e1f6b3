/** Who holds the oldest snapshot. */
export interface FoundSnapshot {
  readonly heldBy: 'session' | 'prepared_transaction' | 'standby' | 'replication_slot';
  /** The session’s application, the prepared transaction’s name, the standby or the slot. Null: not known to this role. */
  readonly name: string | null;
  readonly role: string | null;
  /** The process of a session or of a standby’s connection. */
  readonly pid: number | null;
  /** The session’s state, or `active` or `inactive`. */
  readonly state: string | null;
  /** Null: this one, or all. */
  readonly database: string | null;
  /** How many transactions have begun since. */
  readonly transactions: number;
  /** Its age. Null of a standby, of a slot, and of another role’s session to a role without `pg_read_all_stats`. */
  readonly seconds: number | null;
}

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
    select json_build_object('heldBy', held_by, 'name', nullif(name, ''), 'role', role, 'pid', pid, 'state', state,
      'database', nullif(database, current_database()), 'transactions', transactions,
      'seconds', extract(epoch from greatest(since, clock_timestamp()) - since)) from (
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
    order by transactions desc, since limit 1`;

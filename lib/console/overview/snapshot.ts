import * as z from 'zod';

import { MINUTE, SECOND } from '../../platform/time.ts';
import { field, instantOrNull, jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';

export const snapshotFields = {
  heldBy: field(z.enum(['session', 'prepared_transaction', 'standby', 'replication_slot']), 'held_by'),
  name: field(
    z.string().nullable(),
    "nullif(name, '')",
    'The session’s application, the prepared transaction’s name, the standby or the slot. Null: not known to this role.',
  ),
  role: field(z.string().nullable(), 'role'),
  pid: field(z.int().nullable(), 'pid', 'The process of a session or of a standby’s connection.'),
  state: field(z.string().nullable(), 'state', 'The session’s state, or `active` or `inactive`.'),
  since: instantOrNull(
    'since',
    'When its transaction began. Null if Postgres does not say: of a standby, of a slot, and of another role’s session to a role without `pg_read_all_stats`.',
  ),
  seconds: field(
    z.number().nonnegative().nullable(),
    'extract(epoch from greatest(since, clock_timestamp()) - since)',
    'Its age; null as `since` is.',
  ),
  transactions: field(shape.count, 'transactions', 'How many transactions have begun since.'),
};

/** Who holds the oldest snapshot. */
export interface FoundSnapshot extends Row<typeof snapshotFields> {
  /** Null: this one, or all. */
  readonly database: string | null;
}

/** Reports are done by then, and vacuum is not late yet. */
const OLD_SECONDS = (5 * MINUTE) / SECOND;

/** Where the time is not known. Some minutes of a few hundred transactions a second. */
const MANY_TRANSACTIONS = 100_000;

/** Whether it has been held for so long that operators are to know. */
export const isOld = ({ seconds, transactions }: FoundSnapshot): boolean =>
  seconds === null ? transactions >= MANY_TRANSACTIONS : seconds >= OLD_SECONDS;

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
    select ${jsonOf(snapshotFields, { database: 'nullif(database, current_database())' })} from (
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

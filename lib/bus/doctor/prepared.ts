/**
 * Joins the prepared transactions to `pg_locks`, with their `gid`, `owner` and `prepared`. They have no process; each holds
 * a lock on its own number under the name that its other locks have, which is another one after a restart.
 */
export const JOIN_PREPARED = `left join (
      select own.virtualtransaction as name, gid, owner, prepared
      from pg_locks as own join pg_prepared_xacts on transaction = own.transactionid
      where own.locktype = 'transactionid' and own.pid is null
    ) as prepared_transaction on pg_locks.pid is null and name = pg_locks.virtualtransaction`;

/** First half of the key of the advisory locks that say "a transaction that emits to this topic is open". */
export const EMITTER_LOCKS = 0x9057;

/** The same for those that say "the open transaction of this backend has emitted": a relay waits for them to end. */
export const EMITTING_BACKENDS = 0x9063;

/**
 * Joins the prepared transactions to `pg_locks`, with their `gid`, `owner` and `prepared`. They have no process; each holds
 * a lock on its own number under the name that its other locks have, which is another one after a restart.
 */
export const JOIN_PREPARED = `left join (
      select own.virtualtransaction as name, gid, owner, prepared
      from pg_locks as own join pg_prepared_xacts on transaction = own.transactionid
      where own.locktype = 'transactionid' and own.pid is null
    ) as prepared_transaction on pg_locks.pid is null and name = pg_locks.virtualtransaction`;

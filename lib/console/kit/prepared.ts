import * as z from 'zod';

/** A transaction that was prepared for a two-phase commit: it holds its locks until somebody commits or rolls it back. */
export const preparedTransaction = z
  .object({
    gid: z.string().meta({
      description: 'Its name: `rollback prepared` or `commit prepared` with it ends the transaction.',
    }),
    owner: z.string().meta({ description: 'The role that prepared it.' }),
  })
  .meta({
    id: 'PreparedTransaction',
    description: 'A transaction that was prepared for a two-phase commit and has not been ended.',
  });
export type PreparedTransaction = z.output<typeof preparedTransaction>;

/** @param found a row of a transaction, prepared or not. */
export function preparedOf(
  found: { readonly gid: string | null; readonly owner: string | null } | null | undefined,
): PreparedTransaction | null {
  return found?.gid == null ? null : { gid: found.gid, owner: found.owner ?? '' };
}

/** The two statements that end it, of which an operator chooses one. */
export function endsOf({
  gid,
}: Pick<PreparedTransaction, 'gid'>): readonly [rollback: string, commit: string] {
  const name = `'${gid.replaceAll("'", "''")}'`;
  return [`rollback prepared ${name}`, `commit prepared ${name}`];
}

/**
 * Joins the prepared transactions to `pg_locks`, with their `gid`, `owner` and `prepared`. They have no process; each holds
 * a lock on its own number under the name that its other locks have, which is another one after a restart.
 */
export const JOIN_PREPARED = `left join (
      select own.virtualtransaction as name, gid, owner, prepared
      from pg_locks as own join pg_prepared_xacts on transaction = own.transactionid
      where own.locktype = 'transactionid' and own.pid is null
    ) as prepared_transaction on pg_locks.pid is null and name = pg_locks.virtualtransaction`;

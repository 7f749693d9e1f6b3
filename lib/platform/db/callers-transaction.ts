import type { Executor } from './statement.ts';

/** A transaction. A pool is none: it would take any of its connections, and its writes would survive a rollback. */
export type Transaction = Executor & { readonly totalCount?: never };

/** @throws TypeError for a pool of `pg` or of Neon's driver. */
export function requireTransaction(tx: Transaction): void {
  // Without types, a caller may pass anything.
  const given: unknown = tx;
  if (typeof given !== 'object' || given === null || !('totalCount' in given) || !('connect' in given))
    return;
  throw new TypeError(
    'expected the client of a transaction, got a pool: its query may run outside of your transaction. Pass what pool.connect() gave you, on which you began it',
  );
}

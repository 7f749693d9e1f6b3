import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';

/** First half of the key of the lock that whoever writes to the index holds. Nobody waits for it. */
const INDEX_LOCK = 0x9070;

/**
 * Takes the right to write to the index until the end of the transaction.
 *
 * In a statement of its own, so that the snapshot of the next one is no older than the lock.
 *
 * @returns false if another process has it.
 */
export async function holdIndex(tx: Transaction): Promise<boolean> {
  const [lock] = await run<{ is_held: boolean }>(tx, { text: LOCK, values: [] });
  return lock!.is_held;
}

const LOCK = `select pg_try_advisory_xact_lock(${INDEX_LOCK}, 0) as is_held`;

import { emit } from '../../lib/bus/outbox/emit.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { drainLive, payment } from './bus.ts';
import { relist } from './scenes.ts';

/**
 * Emits payments as a release does whose catalog does not list the ledger for them, and fans them out.
 *
 * @returns their ids in order.
 */
export async function storedWithoutLedger(db: Database, from: number, to: number): Promise<string[]> {
  const emitted = await db.transaction(async (tx) => {
    const ids: string[] = [];
    for (let number = from; number <= to; number += 1)
      ids.push((await emit(tx, 'payment.captured', payment(number))).id);
    await relist(tx, `array_remove(subscribers, 'ledger')`, `id = any ('{${ids.join()}}'::uuid[])`);
    return ids;
  });
  await drainLive(db, []);
  return emitted;
}

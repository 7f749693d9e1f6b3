import { emit } from '../../lib/bus/outbox/emit.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { drainLive, payment } from './bus.ts';

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
    for (const text of [WITHOUT, MARKED_WITHOUT]) await run(tx, { text, values: [`{${ids.join()}}`] });
    return ids;
  });
  await drainLive(db, []);
  return emitted;
}

const WITHOUT = `
  update events set subscribers = array_remove(subscribers, 'ledger'), open = open - 1 where id = any ($1::uuid[])`;

const MARKED_WITHOUT = `
  update awaiting_fan_out set subscribers = array_remove(subscribers, 'ledger'), open = open - 1
  where event_id = any ($1::uuid[])`;

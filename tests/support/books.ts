import type { Database } from '../../lib/platform/db/connect.ts';
import { emitPayments, rows } from './bus.ts';

/** Emits payments as a release does whose catalog lists `books` in the ledger's place, or beside it. */
export async function emitToBooks(
  db: Database,
  from: number,
  to: number,
  { orderingKey, isBeside = false }: { orderingKey?: string; isBeside?: boolean } = {},
): Promise<void> {
  await emitPayments(db, from, to, orderingKey === undefined ? {} : { orderingKey });
  const listed = isBeside
    ? `subscribers || '{books}'::text[], open = open + 1`
    : `array_replace(subscribers, 'ledger', 'books')`;
  await rows(
    db,
    `with event as (
       update events set subscribers = ${listed}
       where id in (select event_id from awaiting_fan_out) and not 'books' = any (subscribers)
         and (payload ->> 'amountMinor')::int between ${from} and ${to} returning id
     )
     update awaiting_fan_out set subscribers = ${listed} where event_id in (select id from event)`,
  );
}

import type { Database } from '../../lib/platform/db/connect.ts';
import { emitPayments } from './bus.ts';
import { relist } from './scenes.ts';

/** Emits payments as a release does whose catalog lists `books` in the ledger's place, or beside it. */
export async function emitToBooks(
  db: Database,
  from: number,
  to: number,
  { orderingKey, isBeside = false }: { orderingKey?: string; isBeside?: boolean } = {},
): Promise<void> {
  await emitPayments(db, from, to, orderingKey === undefined ? {} : { orderingKey });
  const listed = isBeside
    ? `subscribers || '{books}'::text[]`
    : `array_replace(subscribers, 'ledger', 'books')`;
  await relist(
    db,
    listed,
    `not 'books' = any (subscribers) and (payload ->> 'amountMinor')::int between ${from} and ${to}`,
  );
}

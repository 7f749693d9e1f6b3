import * as z from 'zod';

import { subscriberNames } from '../../catalog/catalog.ts';
import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';
import { requireValid } from '../../http/validated.ts';
import { unknownName } from './unknown-name.ts';

/**
 * Accepts subscribers of the catalog and subscribers of other releases that have deliveries here. A list that is empty
 * because its filter is misspelt would look like good news.
 *
 * @throws Problem 400 `validation_failed` for any other subscriber, with the one that was probably meant.
 */
export async function requireKnownSubscriber(db: Database, subscriber: string | undefined): Promise<void> {
  const known = subscriberNames();
  if (subscriber === undefined || known.includes(subscriber) || (await hasDeliveries(db, subscriber))) return;
  const message = unknownName('subscriber', subscriber, known, 'accounting');
  requireValid({ subscriber }, z.object({ subscriber: z.never(message) }));
}

async function hasDeliveries(db: Database, subscriber: string): Promise<boolean> {
  const [row] = await run<{ has: boolean }>(driverOf(db), {
    text: 'select exists (select from backlog where subscriber = $1::text) as has',
    values: [subscriber],
  });
  return row!.has;
}

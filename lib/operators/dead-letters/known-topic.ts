import * as z from 'zod';

import { isTopicName } from '../../catalog/catalog.ts';
import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';
import { requireValid } from '../../http/validated.ts';

/**
 * Accepts topics of the catalog and topics of other releases that have events here.
 *
 * @throws Problem 400 `validation_failed` for any other topic.
 */
export async function requireKnownTopic(db: Database, topic: string | undefined): Promise<void> {
  if (topic === undefined || isTopicName(topic) || (await hasEvents(db, topic))) return;
  requireValid({ topic }, unknown);
}

/** Whether the topic has events, fanned out or waiting for it. */
export async function hasEvents(db: Database, topic: string): Promise<boolean> {
  const [row] = await run<{ has: boolean }>(driverOf(db), {
    text: `select exists (select from lanes where topic = $1::text)
      or exists (select from awaiting_fan_out where topic = $1::text) as has`,
    values: [topic],
  });
  return row!.has;
}

const unknown = z.object({ topic: z.never('expected a topic of the catalog, for example payment.captured') });

import * as z from 'zod';

import { isTopicName, topics } from '../../catalog/catalog.ts';
import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';
import { requireValid } from '../../http/validated.ts';
import { unknownName } from './unknown-name.ts';

/**
 * Accepts topics of the catalog and topics of other releases that have events here.
 *
 * @throws Problem 400 `validation_failed` for any other topic, with the one that was probably meant.
 */
export async function requireKnownTopic(db: Database, topic: string | undefined): Promise<void> {
  if (topic === undefined || isTopicName(topic) || (await hasEvents(db, topic))) return;
  const known = topics().map(([name]) => name);
  requireValid(
    { topic },
    z.object({ topic: z.never(unknownName('topic', topic, known, 'payment.captured')) }),
  );
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

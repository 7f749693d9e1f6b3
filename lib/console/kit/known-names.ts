import { eq } from 'drizzle-orm';
import { unionAll } from 'drizzle-orm/pg-core';
import * as z from 'zod';

import { awaiting, lanes, streams } from '../../../drizzle/schema.ts';
import { isTopicName, subscriberNames, topics } from '../../bus/catalog/catalog.ts';
import type { Database } from '../../platform/db/connect.ts';
import { invalid } from '../../platform/http/operation.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { nearest } from '../../platform/nearest.ts';
import type { Bus } from './route.ts';

// A list that is empty because its filter is misspelt would look like good news.

/**
 * Accepts topics of the catalog and topics of other releases that have events here.
 *
 * @throws Problem 400 `validation_failed` for any other topic, with the one that was probably meant.
 */
export async function requireKnownTopic(db: Database, topic: string | undefined): Promise<void> {
  if (topic === undefined || isTopicName(topic) || (await hasEvents(db, topic))) return;
  const known = topics().map(([name]) => name);
  const message = unknownName('topic', topic, known, 'payment.captured');
  requireValid({ topic }, z.object({ topic: z.never(message) }));
}

/**
 * Accepts subscribers of the catalog and subscribers of other releases that have deliveries here.
 *
 * @throws Problem 400 `validation_failed` for any other subscriber, with the one that was probably meant.
 */
export async function requireKnownSubscriber(db: Database, subscriber: string | undefined): Promise<void> {
  const known = subscriberNames();
  if (subscriber === undefined || known.includes(subscriber) || (await hasDeliveries(db, subscriber))) return;
  const message = unknownName('subscriber', subscriber, known, 'accounting');
  requireValid({ subscriber }, z.object({ subscriber: z.never(message) }));
}

/** The example of a topic that the catalog does not have. */
export const MISSPELT_TOPIC = {
  summary: 'A topic that does not exist',
  parameters: { topic: 'payment.capture' },
  answer: invalid('topic', 'invalid_type', 'expected a topic of the catalog; did you mean payment.captured?'),
};

/** Opens the database for a request that names a topic or a subscriber. @throws Problem as the two above. */
export async function knownIn(
  bus: Bus,
  { topic, subscriber }: { readonly topic?: string | undefined; readonly subscriber?: string | undefined },
): Promise<Database> {
  const db = await bus.database();
  await requireKnownTopic(db, topic);
  await requireKnownSubscriber(db, subscriber);
  return db;
}

/** Whether the topic has events, in their places or waiting for them. */
export async function hasEvents(db: Database, topic: string): Promise<boolean> {
  const placed = db.select({ topic: streams.topic }).from(streams).where(eq(streams.topic, topic));
  const waiting = db.select({ topic: awaiting.topic }).from(awaiting).where(eq(awaiting.topic, topic));
  const found = await unionAll(placed, waiting).limit(1);
  return found.length > 0;
}

async function hasDeliveries(db: Database, subscriber: string): Promise<boolean> {
  const { topic, subscriber: of } = lanes;
  const found = await db.select({ topic }).from(lanes).where(eq(of, subscriber)).limit(1);
  return found.length > 0;
}

/** Says that a name is not known, and which was probably meant. @param example for where none is near. */
function unknownName(kind: string, written: string, known: readonly string[], example: string): string {
  const meant = nearest(written, known);
  return meant === null
    ? `expected a ${kind} of the catalog, for example ${example}`
    : `expected a ${kind} of the catalog; did you mean ${meant}?`;
}

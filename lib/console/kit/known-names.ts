import { eq } from 'drizzle-orm';
import { unionAll } from 'drizzle-orm/pg-core';
import * as z from 'zod';

import { awaiting, lanes, streams } from '../../../drizzle/schema.ts';
import { subscriberNames, topics } from '../../bus/catalog/catalog.ts';
import type { Database } from '../../platform/db/connect.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { nearest } from '../../platform/nearest.ts';

// A list that is empty because its filter is misspelt would look like good news.

interface Named {
  readonly topic?: string | undefined;
  readonly subscriber?: string | undefined;
}

/** Opens the database for a request that names a topic or a subscriber. @throws Problem as `requireKnown` does. */
export async function knownIn(
  { database }: { readonly database: () => Promise<Database> },
  named: Named,
): Promise<Database> {
  const db = await database();
  await requireKnown(db, named);
  return db;
}

/**
 * Accepts names of the catalog, and those of other releases that have events or deliveries here.
 *
 * @throws Problem 400 `validation_failed` for any other name, with the one that was probably meant.
 */
export async function requireKnown(db: Database, { topic, subscriber }: Named): Promise<void> {
  const listed = topics().map(([name]) => name);
  if (topic !== undefined && !listed.some((name) => name === topic) && !(await hasEvents(db, topic)))
    refuse('topic', topic, listed, 'payment.captured');
  const names = subscriberNames();
  if (subscriber !== undefined && !names.includes(subscriber) && !(await hasDeliveries(db, subscriber)))
    refuse('subscriber', subscriber, names, 'accounting');
}

/** Finds the name that was probably meant by one in a path; null for a known one, and where none is near. */
export function meantBy({ topic, subscriber }: Named): string | null {
  const written = topic ?? subscriber;
  const known = topic === undefined ? subscriberNames() : topics().map(([name]) => name);
  return written === undefined || known.some((name) => name === written) ? null : nearest(written, known);
}

/** Whether the topic has events, in their places or waiting for them. */
export async function hasEvents(db: Database, topic: string): Promise<boolean> {
  const placed = db.select({ topic: streams.topic }).from(streams).where(eq(streams.topic, topic));
  const waiting = db.select({ topic: awaiting.topic }).from(awaiting).where(eq(awaiting.topic, topic));
  return (await unionAll(placed, waiting).limit(1)).length > 0;
}

async function hasDeliveries(db: Database, subscriber: string): Promise<boolean> {
  return (await db.$count(lanes, eq(lanes.subscriber, subscriber))) > 0;
}

/** @param example for where no known name is near. */
function refuse(kind: string, written: string, known: readonly string[], example: string): void {
  const meant = nearest(written, known);
  const expected = `expected a ${kind} of the catalog`;
  const message =
    meant === null ? `${expected}, for example ${example}` : `${expected}; did you mean ${meant}?`;
  requireValid({ [kind]: written }, z.object({ [kind]: z.never(message) }));
}

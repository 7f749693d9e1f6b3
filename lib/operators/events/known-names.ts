import * as z from 'zod';

import { isTopicName, topics } from '../../catalog/catalog.ts';
import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';
import { requireValid } from '../../http/validated.ts';
import { nearest } from '../../nearest.ts';
import { hasEvents } from '../dead-letters/known-topic.ts';

/** The names that a list is filtered by. */
interface Names {
  readonly topic?: string | undefined;
  readonly subscriber?: string | undefined;
}

/**
 * Accepts the names of the catalog, and those of other releases that have events here.
 *
 * @throws Problem 400 `validation_failed` for any other, with the name that was probably meant.
 */
export async function requireKnownNames(db: Database, { topic, subscriber }: Names): Promise<void> {
  const [isTopic, isSubscriber] = await Promise.all([
    topic === undefined || isTopicName(topic) || hasEvents(db, topic),
    subscriber === undefined || SUBSCRIBERS.includes(subscriber) || hasDeliveries(db, subscriber),
  ]);
  const wrong = {
    ...(topic !== undefined && !isTopic && { topic: z.never(unknown('topic', topic, TOPICS)) }),
    ...(subscriber !== undefined &&
      !isSubscriber && { subscriber: z.never(unknown('subscriber', subscriber, SUBSCRIBERS)) }),
  };
  requireValid({ topic, subscriber }, z.object(wrong));
}

const TOPICS = topics().map(([topic]) => topic);
const SUBSCRIBERS = [...new Set<string>(topics().flatMap(([, { subscribers }]) => subscribers))].toSorted();

function unknown(kind: string, written: string, known: readonly string[]): string {
  const meant = nearest(written, known);
  const hint = meant === null ? `the catalog has, for example, ${known[0]}` : `did you mean ${meant}?`;
  return `unknown ${kind} '${written}': ${hint}`;
}

async function hasDeliveries(db: Database, subscriber: string): Promise<boolean> {
  const [row] = await run<{ has: boolean }>(driverOf(db), {
    text: 'select exists (select from lanes where subscriber = $1::text) as has',
    values: [subscriber],
  });
  return row!.has;
}

import { journal as table } from '../../drizzle/schema.ts';
import { catalog } from '../catalog/catalog.ts';
import type { Topic } from '../catalog/topic.ts';
import { attach } from './subscriber.ts';
import type { AttachedSubscriber, BusEvent, TransactionalContext } from './subscriber.ts';

/**
 * Stands in for every subscriber of the catalog that is not attached, by writing down what it was handed.
 *
 * For the embedded mode only, where nobody waits for the real one: elsewhere such deliveries wait in order.
 */
export function journalFor(attached: readonly AttachedSubscriber[]): AttachedSubscriber[] {
  const isAttached = new Set(
    attached.flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
  const missing = new Map<Topic['subscribers'][number], string[]>();
  for (const [topic, { subscribers }] of Object.entries<Topic>(catalog)) {
    for (const name of subscribers) {
      if (!isAttached.has(`${topic} ${name}`)) missing.set(name, [...(missing.get(name) ?? []), topic]);
    }
  }
  return Array.from(missing, ([name, topics]) => standIn(name, topics));
}

function standIn(name: string, topics: readonly string[]): AttachedSubscriber {
  const record = async (event: BusEvent, { tx }: TransactionalContext) => {
    await tx
      .insert(table)
      .values({ eventId: event.id, subscriber: name, topic: event.topic })
      .onConflictDoNothing();
  };
  return attach(name, Object.fromEntries(topics.map((topic) => [topic, record])), { transactional: true });
}

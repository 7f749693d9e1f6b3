import { standInEvents as table } from '../../drizzle/schema.ts';
import { topics } from '../bus/catalog/catalog.ts';
import { attach } from '../bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent, TransactionalContext } from '../bus/subscribers/subscriber.ts';

/**
 * Makes a stand-in for every subscription of the catalog that is not attached: it writes its events to the journal.
 *
 * For the embedded mode only. Elsewhere deliveries to unattached subscribers wait, in order.
 *
 * @param waiting subscriptions, as `topic subscriber`, whose deliveries wait here too.
 */
export function journalFor(
  attached: readonly AttachedSubscriber[],
  waiting: ReadonlySet<string>,
): AttachedSubscriber[] {
  const isAttached = new Set(
    attached.flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
  const missing = new Map<string, string[]>();
  for (const [topic, { subscribers }] of topics()) {
    for (const name of subscribers) {
      const key = `${topic} ${name}`;
      if (isAttached.has(key) || waiting.has(key)) continue;
      missing.set(name, [...(missing.get(name) ?? []), topic]);
    }
  }
  return Array.from(missing, ([name, listed]) => standIn(name, listed));
}

function standIn(name: string, listed: readonly string[]): AttachedSubscriber {
  const record = async (event: BusEvent, { tx }: TransactionalContext) => {
    await tx
      .insert(table)
      .values({ eventId: event.id, subscriber: name, topic: event.topic })
      .onConflictDoNothing();
  };
  return attach(name, Object.fromEntries(listed.map((topic) => [topic, record])), {
    transactional: true,
    place: 'journal',
  });
}

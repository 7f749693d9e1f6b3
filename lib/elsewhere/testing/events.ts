import type { TopicName } from '../../bus/catalog/catalog.ts';
import type { BusEvent } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

/** An event of one of these topics, with its payload. */
export type AnyEvent<Name extends TopicName = TopicName> = Name extends TopicName ? BusEvent<Name> : never;

/** Reads the events as handlers receive them, in the order of their creation. @param topic null for all. */
export async function readEvents(db: Database, topic: TopicName | null): Promise<AnyEvent[]> {
  const found = await run<AnyEvent & { at: number }>(driverOf(db), {
    text: `select id::text, topic, payload, version, producer, floor(extract(epoch from created_at) * 1000)::float8 as at,
        seq::float8, ordering_key as "orderingKey", correlation_id as "correlationId", causation_id as "causationId",
        traceparent, erased_at is not null as erased
      from events where $1::text is null or topic = $1::text order by created_at, seq`,
    values: [topic],
  });
  return found.map(({ at, ...event }) => ({ ...event, createdAt: new Date(at) }));
}

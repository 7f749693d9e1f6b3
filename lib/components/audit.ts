import { auditLog } from '../../drizzle/schema.ts';
import { subscriber, topicsOf } from '../bus/subscribers/subscriber.ts';
import type { BusEvent, TransactionalContext } from '../bus/subscribers/subscriber.ts';
import { withoutPersonalData } from '../bus/catalog/personal-data.ts';

/** Keeps the audit trail: one row for each event of its topics, without personal data. */
export const audit = subscriber(
  'audit',
  Object.fromEntries(topicsOf('audit').map((topic) => [topic, record])),
  {
    transactional: true,
  },
);

async function record(event: BusEvent, { tx }: TransactionalContext): Promise<void> {
  await tx
    .insert(auditLog)
    .values({
      eventId: event.id,
      topic: event.topic,
      producer: event.producer,
      occurredAt: event.createdAt,
      correlationId: event.correlationId,
      causationId: event.causationId,
      payload: withoutPersonalData(event.topic, event.payload),
    })
    // A replay adds nothing to the trail.
    .onConflictDoNothing();
}

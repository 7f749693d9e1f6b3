import { notifications as table } from '../../drizzle/schema.ts';
import { catalog } from '../catalog/catalog.ts';
import { subscriber, topicsOf } from './subscriber.ts';
import type { BusEvent, TransactionalContext } from './subscriber.ts';

/** Records whom to tell what. */
export const notifications = subscriber(
  'notifications',
  Object.fromEntries(topicsOf('notifications').map((topic) => [topic, record])),
  { transactional: true },
);

async function record(event: BusEvent, { tx }: TransactionalContext): Promise<void> {
  const { payload } = event;
  const email = 'email' in payload && typeof payload.email === 'string' ? payload.email : null;
  await tx
    .insert(table)
    .values({ eventId: event.id, topic: event.topic, email, subject: catalog[event.topic].description })
    .onConflictDoNothing();
}

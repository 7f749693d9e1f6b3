import { inTransactionOf } from '../../platform/db/callers-transaction.ts';
import type { Transaction } from '../../platform/db/callers-transaction.ts';
import { inSendSpan } from '../../platform/telemetry/event.ts';
import type { PayloadInput, TopicName } from '../catalog/catalog.ts';
import { store } from './insert.ts';
import { outboxEvent } from './record.ts';
import type { EmitOptions } from './record.ts';

export { InvalidPayload, NotYourTopic, UnknownTopic } from './errors.ts';
export type { EmitOptions } from './record.ts';
export { cancelTimer } from './timers.ts';
export { NotInTransaction } from '../../platform/db/callers-transaction.ts';
export type { Transaction } from '../../platform/db/callers-transaction.ts';

/**
 * Records an event in the outbox, in the caller's transaction and in one statement.
 *
 * After a rollback nothing is left. After the commit, every subscriber that this release's catalog lists for the topic
 * receives the event, whatever release the relay is of. Write the business rows first, then emit, so that the events about
 * one row follow the order of its changes. With one business write, `db.transaction` takes three round trips: `begin` with
 * the write, this, and `commit`.
 *
 * With `at` it sets a timer. The event is recorded when its time has come, for the subscribers that the catalog lists then,
 * and has its place in the order from then on.
 *
 * @param tx the transaction that also writes the business data: Drizzle's, or the bare client of `pg`, Neon or PGlite.
 * @param payload checked against the topic's schema; the schema's output is stored.
 * @returns the event's id, a UUIDv7; with a `dedupeKey` that was used before, the id of that event. A timer that is moved
 *   becomes an event of another id, the one that this returns.
 * @throws InvalidPayload or UnknownTopic before anything is sent to the database, so that the transaction can go on;
 *   NotInTransaction, and then nothing is stored.
 */
export async function emit<Name extends TopicName>(
  tx: Transaction,
  topic: Name,
  payload: PayloadInput<Name>,
  options: EmitOptions = {},
): Promise<{ id: string }> {
  const recorded = async () => {
    const event = outboxEvent(topic, payload, options);
    return { id: await inTransactionOf(tx, 'emit', async () => await store(tx, event)) };
  };
  if (options.traceparent !== undefined) return await recorded();
  return await inSendSpan(topic, async (sent) => {
    const { id } = await recorded();
    sent(id);
    return { id };
  });
}

import { readDeliveryId } from '../../lib/bus/deliveries/delivery-id.ts';
import { beginDismissal, dismissDeadLetters } from '../../lib/bus/deliveries/operations/dismiss.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { rows } from './bus.ts';

/** Dismisses one dead letter, whenever it died; any other delivery is left alone. */
export async function dismissLetter(
  db: Database,
  { deliveryId, ...how }: { readonly deliveryId: string; readonly by: string; readonly reason: string },
): Promise<void> {
  const { eventId, subscriber } = readDeliveryId(deliveryId)!;
  const [event] = await rows<{ topic: string }>(db, 'select topic from events where id = $1::uuid', [
    eventId,
  ]);
  await dismissDeadLetters(
    db,
    { topic: event!.topic, subscriber, deliveryIds: [deliveryId] },
    beginDismissal({ action: 'dismiss', ...how, deliveryId, until: Infinity }),
  );
}

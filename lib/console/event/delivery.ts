import * as z from 'zod';

import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { deliveryFields } from '../deliveries/fields.ts';
import { readAlone } from './read.ts';
import { delivery, eventFields } from './view.ts';
import { shapesOf } from '../kit/fields.ts';
import { payloadFields } from '../kit/payload.ts';
import type { Reveal } from '../kit/reveal.ts';
import * as shape from '../kit/shapes.ts';

const known = z.object(shapesOf(eventFields));
const deliveryId = deliveryFields.deliveryId.shape;

export const deadLetter = z
  .object({
    generatedAt: shape.instant,
    ...known.pick({ eventId: true, topic: true, subject: true, createdAt: true, orderingKey: true }).shape,
    ...delivery.shape,
    deliveryId,
    event: known.pick({
      state: true,
      producer: true,
      version: true,
      correlationId: true,
      causationId: true,
      traceparent: true,
    }),
    ...payloadFields,
    siblings: z
      .array(z.object({ deliveryId, subscriber: z.string(), state: shape.state }))
      .meta({ description: 'The same event’s deliveries to its other subscribers.' }),
  })
  .meta({
    id: 'DeadLetter',
    description: 'A delivery that is or was a dead letter, with its history, and why it waits if it does.',
  });
export type DeadLetter = z.output<typeof deadLetter>;

/**
 * Reads one delivery of an event, in any state, with its personal data hidden unless it was revealed.
 *
 * @param attached tells how many attempts a delivery has.
 * @returns null for an unknown delivery.
 */
export async function readDeadLetter(
  db: Database,
  id: string,
  attached: readonly AttachedSubscriber[] = [],
  reveal: Reveal | null = null,
): Promise<DeadLetter | null> {
  const names = readDeliveryId(id);
  const view = names && (await readAlone(db, names.eventId, { attached, reveal }));
  // Those of an event that awaits its place have no id.
  const all = view?.deliveries.flatMap((one) =>
    one.deliveryId === null ? [] : { ...one, deliveryId: one.deliveryId },
  );
  const found = all?.find(({ subscriber }) => subscriber === names?.subscriber);
  if (!view || !all || !found) return null;
  const { eventId, topic, subject, createdAt, orderingKey, dedupeKey: _, ...ofEvent } = view.event;
  const { state, producer, version, correlationId, causationId, traceparent, ...payload } = ofEvent;
  const others = all.filter((one) => one !== found);
  return {
    generatedAt: view.generatedAt,
    eventId,
    topic,
    subject,
    createdAt,
    orderingKey,
    ...found,
    event: { state, producer, version, correlationId, causationId, traceparent },
    ...payload,
    siblings: others.map((one) => ({
      deliveryId: one.deliveryId,
      subscriber: one.subscriber,
      state: one.state,
    })),
  };
}

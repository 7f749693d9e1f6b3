import { eq } from 'drizzle-orm';
import * as z from 'zod';

import { events } from '../../../drizzle/schema.ts';
import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { probeHead } from '../../bus/deliveries/operations/probe-head.ts';
import { retryNow } from '../../bus/deliveries/operations/retry-now.ts';
import { skip as skipFirst } from '../../bus/deliveries/operations/skip.ts';
import type { Database } from '../../platform/db/database.ts';
import { action } from '../kit/action.ts';
import { requireHandled } from '../kit/handling.ts';
import { HOME } from '../kit/links.ts';
import { deliveryId, UNKNOWN_DELIVERY } from '../kit/replay-request.ts';
import type { Checked } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';

const actedOn = z
  .object({ deliveryId: z.string(), topic: shape.topic, subscriber: z.string() })
  .meta({ id: 'ActedOn', description: 'The delivery that was retried, tried or skipped.' });

const body = shape.optionalReason.extend({
  incidentId: z.uuid().nullish().describe('The incident that it is done for, in whose log it then is.'),
});

/** Makes the delivery that holds a lane due at once. */
export const retry = action({
  name: 'retry',
  id: 'retryNow',
  path: `${HOME}/deliveries/{deliveryId}/retry`,
  summary: 'Retry the delivery that holds a lane now',
  description:
    'While its subscriber does not answer, makes the next probe due now. The delivery that is due longest probes; when it gets through, all follow.',
  parameters: { deliveryId },
  body,
  answer: actedOn,
  problems: ['no_such_subscription', 'unattached', 'not_first', 'not_waiting', 'halted', 'under_way'],
  unknown: UNKNOWN_DELIVERY,
  handle: async (visit) => await onDelivery(visit, true, retryNow),
  button: 'Retry now',
  done: (delivery) => `Retried ${nameOf(delivery)}: it is due now.`,
  isAwaited: true,
});

/** Hands the delivery that holds a lane over once, at no cost. */
export const probeDelivery = action({
  name: 'probe-delivery',
  id: 'probeDelivery',
  path: `${HOME}/deliveries/{deliveryId}/probe`,
  summary: 'Try the delivery that holds a lane once, at no cost',
  description:
    'Hands it over once. If it is delivered, its lane goes on. If it fails, its number of attempts and the time of its next one stay as they are. A retry that is asked for before the attempt takes its place. While the subscriber does not answer, probe the subscriber instead.',
  parameters: { deliveryId },
  body,
  answer: actedOn,
  problems: [
    'no_such_subscription',
    'unattached',
    'not_first',
    'not_waiting',
    'halted',
    'under_way',
    'paused',
    'outage',
  ],
  unknown: UNKNOWN_DELIVERY,
  handle: async (visit) => await onDelivery(visit, true, probeHead),
  button: 'Try once',
  done: (delivery) => `Tried ${nameOf(delivery)}: it is due now. If it fails, that costs no attempt.`,
  isAwaited: true,
});

export const skip = action({
  name: 'skip',
  id: 'skip',
  path: `${HOME}/deliveries/{deliveryId}/skip`,
  summary: 'Skip the delivery that holds a lane, so that the lane continues',
  description: 'The delivery becomes a dead letter and can be replayed like any other.',
  parameters: { deliveryId },
  body: body.extend({ reason: shape.requiredReason }).meta(shape.needsReason),
  answer: actedOn,
  problems: ['not_first', 'not_waiting', 'halted', 'under_way'],
  unknown: UNKNOWN_DELIVERY,
  handle: async (visit) => {
    const { reason } = visit.body;
    return await onDelivery(visit, false, async (db, asked) => await skipFirst(db, { ...asked, reason }));
  },
  button: 'Skip…',
  asks: {
    text: 'The delivery becomes a dead letter, which can be replayed. The next one in its lane is delivered.',
    example: 'answered by phone',
    submit: 'Skip this delivery',
  },
  done: (delivery) => ({
    words: `Skipped ${nameOf(delivery)}: it is a dead letter now. What waited behind it follows.`,
    next: `To deliver it later: npx postbud replay --delivery ${delivery.deliveryId}`,
  }),
});

function nameOf({ topic, subscriber: to }: z.output<typeof actedOn>): string {
  return `${topic} to ${to}`;
}

export const laneActions = [retry, probeDelivery, skip];

interface Asked {
  readonly deliveryId: string;
  readonly by: string;
  readonly reason: string | null;
  readonly incidentId: string | null;
}

/**
 * Acts on the delivery that holds a lane.
 *
 * @param isDelivered whether this release is to deliver it then.
 * @throws Problem 404 or 409 if that cannot be done, with who did so first.
 */
async function onDelivery<Of>(
  {
    parameters,
    body: { reason = null, incidentId = null },
    operator,
    bus,
  }: Checked<{ deliveryId: typeof deliveryId }, undefined, z.output<typeof body>>,
  isDelivered: boolean,
  act: (db: Database, asked: Asked) => Promise<Of>,
): Promise<Of> {
  const db = await bus.database();
  const names = isDelivered && readDeliveryId(parameters.deliveryId);
  if (names) {
    const [found] = await db.select({ topic: events.topic }).from(events).where(eq(events.id, names.eventId));
    if (found) requireHandled(found.topic, names.subscriber, bus.subscribers());
  }
  return await act(db, { ...parameters, by: operator.subject, reason, incidentId });
}

import * as z from 'zod';

import { eventPath, HOME, revealedPath } from '../kit/links.ts';
import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { findReveal, recordReveal, revealQuery } from '../kit/payload.ts';
import { deliveryId, UNKNOWN_DELIVERY } from '../kit/replay-request.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { view } from '../kit/view.ts';
import { deliveryDoc, eventDoc } from './doc.ts';
import { readEvent } from './read.ts';
import { deadLetter, eventView } from './view.ts';

/** What the view of an event and its reveal share. */
const OF_EVENT = {
  parameters: {
    eventId: z.string().max(200).meta({ format: 'uuid', description: 'The id of an event.' }),
  },
  answer: eventView,
  unknown:
    'Unknown event, or one that is no longer kept. Its id is a UUID. A search finds events by other ids too: delivery, correlation and webhook ids, keys, and ids in payloads.',
};

const isEventId = (id: string) => z.uuid().safeParse(id).success;

export const showEvent = view({
  ...OF_EVENT,
  id: 'readEvent',
  path: `${HOME}/events/{eventId}`,
  summary: 'See one event: where it is, why each of its deliveries waits, what caused it and what it caused',
  query: revealQuery,
  handle: async ({ parameters: { eventId }, query, operator, bus }) => {
    if (!isEventId(eventId)) return null;
    const db = await bus.database();
    const reveal = await findReveal(db, operator, query, eventId);
    return await readEvent(db, eventId, { attached: bus.subscribers(), reveal });
  },
  says: eventDoc,
});

export const revealEvent = operatorRoute({
  ...OF_EVENT,
  id: 'revealEvent',
  path: `${HOME}/events/{eventId}/reveal`,
  summary: 'See one event with its personal data; the operator and the reason are recorded',
  scope: 'event-bus:reveal',
  body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
  handle: async ({ parameters: { eventId }, body: { reason }, operator, bus }) => {
    if (!isEventId(eventId)) return null;
    const db = await bus.database();
    const reveal = await recordReveal(db, { eventId, by: operator.subject, reason });
    return reveal && (await readEvent(db, eventId, { attached: bus.subscribers(), reveal }));
  },
  // To an address of its own, so that a reload asks for the page again and not for another reveal.
  redirectTo: ({ event: { eventId, reveal } }) => reveal && revealedPath(eventPath(eventId), reveal.revealId),
});

export const showDeadLetter = view({
  id: 'readDeadLetter',
  path: `${HOME}/dead-letters/{deliveryId}`,
  parameters: { deliveryId },
  summary: 'See one delivery in any state, every attempt of it, and its event without personal data',
  answer: deadLetter,
  unknown: UNKNOWN_DELIVERY,
  handle: async ({ parameters, bus }) => {
    const names = readDeliveryId(parameters.deliveryId);
    const db = names && (await bus.database());
    const found = db && (await readEvent(db, names.eventId, { ...names, attached: bus.subscribers() }));
    if (!found) return null;
    const {
      event,
      deliveries: [delivery],
      ...others
    } = found;
    return { ...others, ...event, ...delivery! };
  },
  says: (one, names) => deliveryDoc({ ...one, event: one, deliveries: [one] }, names),
});

export const eventViews = [showEvent, { route: revealEvent }];

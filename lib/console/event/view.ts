import * as z from 'zod';

import { attemptError, deliveryFields, historyEntry, isHalting } from '../deliveries/attempts.ts';
import { eventState } from '../kit/event-state.ts';
import { computed, field, instant, instantOrNull, shapesOf, textOrNull } from '../kit/fields.ts';
import { allowedAttempts } from '../kit/handling.ts';
import { payloadFields } from '../kit/payload.ts';
import * as shape from '../kit/shapes.ts';

/** Times in a text are to the second, in UTC, like the fields beside it. */
const text = z.string().describe('The same in words, for people. Times in it are UTC.');

const whyCode = z
  .enum([
    'relay_stopped',
    'timer',
    'producer_open',
    'not_fanned_out',
    'not_in_catalog',
    'unattached',
    'paused',
    'outage',
    'backfill',
    'halted',
    'behind',
    'leased',
    'newer_version',
    'backoff',
    'rate_limited',
    'due',
  ])
  .meta({ id: 'WhyCode', description: 'Why a delivery waits. Later releases may add codes.' });

export const inFrontFields = {
  deliveryId: field(deliveryFields.deliveryId.shape, "ahead.event_id || '.' || ahead.subscriber"),
  eventId: field(z.uuid(), 'ahead.event_id'),
  topic: field(shape.topic, 'ahead.topic'),
  subject: computed(z.string().nullable().describe('Null also where it is that of the waiting event too.')),
  code: computed(whyCode.describe('Why the first one waits.')),
};
const inFront = z.object(shapesOf(inFrontFields)).meta({
  id: 'InFront',
  description:
    'What the others of the lane wait for: its first unfinished delivery, or, with the code `halted`, the dead letter that halts it.',
});
export type InFront = z.output<typeof inFront>;

const why = z
  .object({
    code: whyCode,
    text,
    since: shape.instant.nullable().describe('Since when it waits for this reason.'),
    until: shape.instant
      .nullable()
      .describe(
        'The next attempt of the first in front or of its own, the next probe, the end of the lease, when the timer is due, or when at the subscriber’s rate all that waits for it is handed over.',
      ),
    by: z.string().nullable().describe('The operator who paused the subscriber, or began the backfill.'),
    reason: z
      .string()
      .nullable()
      .describe(
        'The operator’s reason; of a timer that the catalog refuses, `refused`; of a limit, `600/m` or `4 at once`.',
      ),
    pausedTopic: shape.topic.nullable().describe('Of a pause: its topic; null for all topics.'),
    behind: inFront.nullable(),
  })
  .meta({ id: 'Why', description: 'Why a delivery is not delivered yet.' });
export type Why = z.output<typeof why>;

export const eventDeliveryFields = {
  deliveryId: field(
    deliveryFields.deliveryId.shape.nullable().describe('Null while the event awaits its place.'),
    "delivery.event_id || '.' || delivery.subscriber",
  ),
  subscriber: field(z.string(), 'delivery.subscriber'),
  state: field(shape.state, 'delivery.state'),
  attempts: computed(z.array(historyEntry).describe('Oldest first.')),
  failures: computed(deliveryFields.failures.shape),
  maxAttempts: computed(allowedAttempts),
  replays: field(shape.count, 'delivery.replays'),
  nextAttemptAt: computed(shape.instant.nullable()),
  deliveredAt: instantOrNull('delivery.delivered_at'),
  deadLetteredAt: instantOrNull('delivery.dead_lettered_at'),
  dismissedAt: instantOrNull(
    'delivery.dismissed_at',
    'When an operator said that the dead letter will not be replayed.',
  ),
  isHalting: field(isHalting, "delivery.is_open and delivery.state = 'dead_lettered'"),
  lastError: computed(attemptError.extend({ group: shape.errorGroup.nullable() }).nullable()),
  why: computed(why.nullable().describe('Null for a delivery that is delivered or dead-lettered.')),
};
const eventDelivery = z
  .object(shapesOf(eventDeliveryFields))
  .meta({ id: 'EventDelivery', description: 'One event on its way to one subscriber.' });
export type EventDelivery = z.output<typeof eventDelivery>;

export const relativeFields = {
  eventId: field(z.string(), 'relative_id'),
  topic: field(
    shape.topic.nullable().describe('Null for an event that is pruned: only its id is known.'),
    'topic',
  ),
  subject: computed(z.string().nullable()),
  state: field(shape.state.nullable(), `case when topic is not null then ${eventState('events')} end`),
  createdAt: instantOrNull('created_at'),
};
const relative = z
  .object(shapesOf(relativeFields))
  .meta({ id: 'RelatedEvent', description: 'An event that led to this one, or that this one led to.' });
export type RelatedEvent = z.output<typeof relative>;

export const eventFields = {
  eventId: field(deliveryFields.eventId.shape, 'event.id'),
  topic: field(shape.topic, 'event.topic'),
  subject: deliveryFields.subject,
  state: field(shape.state, eventState('event')),
  createdAt: instant('event.created_at'),
  producer: field(z.string(), 'event.producer'),
  version: field(z.int().positive(), 'event.version'),
  orderingKey: field(z.string().describe('Empty if the whole topic is one lane.'), 'event.ordering_key'),
  dedupeKey: textOrNull('event.dedupe_key'),
  correlationId: textOrNull('event.correlation_id'),
  causationId: textOrNull('event.causation_id'),
  traceparent: textOrNull('event.traceparent'),
};

export const eventView = z
  .object({
    generatedAt: shape.instant,
    event: z.object({ ...shapesOf(eventFields), ...payloadFields }),
    verdict: text.describe('One sentence: where the event is, and why.'),
    deliveries: z
      .array(eventDelivery)
      .describe('One for each subscriber, by name; the one that was asked for by its id.'),
    causes: z.array(relative).describe('From the first cause to the last.'),
    effects: z.array(relative).describe('The first 50 events that it caused, oldest first.'),
  })
  .meta({ id: 'Event', description: 'One event with its deliveries, and why each of them waits.' });
export type EventView = z.output<typeof eventView>;

/** One of its deliveries: what is known of both, in one object. */
export const deadLetter = eventView
  .omit({ event: true, deliveries: true })
  .extend({ ...eventView.shape.event.shape, ...eventDelivery.shape })
  .meta({ id: 'DeadLetter', description: 'A delivery that is or was a dead letter, with its event.' });
export type DeadLetter = z.output<typeof deadLetter>;

import * as z from 'zod';

import { attemptError, historyEntry } from '../deliveries/attempts.ts';
import { deliveryFields } from '../deliveries/fields.ts';
import { halts } from '../deliveries/halts.ts';
import { outage } from '../incidents/outage.ts';
import { eventState } from '../kit/event-state.ts';
import { computed, field, instant, instantOrNull, shapesOf } from '../kit/fields.ts';
import { allowedAttempts } from '../kit/handling.ts';
import { payloadFields } from '../kit/payload.ts';
import { preparedTransaction } from '../kit/prepared.ts';
import * as shape from '../kit/shapes.ts';

/** Times in a text are to the second, in UTC, like the fields beside it. */
const text = z.string().meta({
  description: 'The same in words, for people. Times in it are UTC.',
});

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
  subject: computed(
    z.string().nullable().meta({ description: 'Null also where it is that of the waiting event too.' }),
  ),
  count: computed(
    shape.count.meta({
      description:
        'Unfinished deliveries in front, the first included, or the dead letter that halts the lane.',
    }),
  ),
  isMore: computed(z.boolean().meta({ description: 'Whether more may wait in front than `count` says.' })),
  code: computed(whyCode.meta({ description: 'Why the first one waits.' })),
  nextAttemptAt: computed(shape.instant.nullable()),
  lastError: computed(attemptError.nullable()),
};
const inFront = z.object(shapesOf(inFrontFields)).meta({
  id: 'InFront',
  description:
    'What the others of the lane wait for: its first unfinished delivery, or, with the code `halted`, the dead letter that halts it.',
});
export type InFront = z.output<typeof inFront>;

export const producerFields = {
  pid: field(z.int().nullable().meta({ description: 'Null for a prepared transaction.' }), 'pid'),
  applicationName: field(z.string().nullable(), "nullif(application_name, '')"),
  clientAddress: field(z.string().nullable(), 'client_address'),
  state: field(
    z.string().nullable().meta({ description: 'As Postgres names it: `idle in transaction`.' }),
    'state',
  ),
  since: instantOrNull('since', 'When the transaction began, or was prepared.'),
  prepared: field(
    preparedTransaction.nullable().meta({ description: 'Null for one that is open.' }),
    `case when gid is not null then json_build_object('gid', gid, 'owner', coalesce(owner, '')) end`,
  ),
};
const producer = z.object(shapesOf(producerFields)).meta({
  id: 'OpenProducer',
  description: 'An open transaction of a producer. Fields that this role may not see are null.',
});
export type OpenProducer = z.output<typeof producer>;

const why = z
  .object({
    code: whyCode,
    text,
    since: shape.instant.nullable().meta({ description: 'Since when it waits for this reason.' }),
    until: shape.instant.nullable().meta({
      description:
        'The next attempt, the next probe, the end of the lease, when the timer is due, or when at the subscriber’s rate all that waits for it is handed over.',
    }),
    by: z
      .string()
      .nullable()
      .meta({ description: 'The operator who paused the subscriber, or began the backfill.' }),
    reason: z.string().nullable().meta({
      description:
        'The operator’s reason; of a timer that the catalog refuses, `refused`; of a limit, `600/m` or `4 at once`.',
    }),
    pausedTopic: shape.topic.nullable().meta({ description: 'Of a pause: its topic; null for all topics.' }),
    behind: inFront.nullable(),
    outage: outage.nullable(),
    producers: z
      .array(producer)
      .meta({ description: 'The transactions that the event waits for, oldest first.' }),
    neededVersion: z.int().positive().nullable(),
    lastError: attemptError.nullable().meta({ description: 'The error of its own last attempt.' }),
    also: z
      .array(z.object({ code: whyCode, text }))
      .meta({ description: 'Reasons that remain when this one is gone.' }),
  })
  .meta({ id: 'Why', description: 'Why a delivery is not delivered yet.' });
export type Why = z.output<typeof why>;

export const eventDeliveryFields = {
  deliveryId: field(
    deliveryFields.deliveryId.shape
      .nullable()
      .meta({ description: 'Null while the event awaits its place.' }),
    "delivery.event_id || '.' || delivery.subscriber",
  ),
  subscriber: field(z.string(), 'delivery.subscriber'),
  state: field(shape.state, 'delivery.state'),
  attempts: computed(z.array(historyEntry).meta({ description: 'Oldest first.' })),
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
  halts: computed(halts.nullable().meta({ description: 'Of a dead letter that halts its lane.' })),
  lastError: computed(attemptError.extend({ group: shape.errorGroup.nullable() }).nullable()),
  why: computed(
    why.nullable().meta({ description: 'Null for a delivery that is delivered or dead-lettered.' }),
  ),
};
export const delivery = z
  .object(shapesOf(eventDeliveryFields))
  .meta({ id: 'EventDelivery', description: 'One event on its way to one subscriber.' });
export type EventDelivery = z.output<typeof delivery>;

export const relativeFields = {
  eventId: field(z.string(), 'relative_id'),
  isKept: field(
    z.boolean().meta({ description: 'False for an event that is pruned: nothing but its id is known.' }),
    'topic is not null',
  ),
  topic: field(shape.topic.nullable(), 'topic'),
  producer: field(z.string().nullable(), 'producer'),
  subject: computed(z.string().nullable()),
  state: field(shape.state.nullable(), `case when topic is not null then ${eventState('events')} end`),
  createdAt: instantOrNull('created_at'),
  causedBy: field(
    z.string().nullable().meta({ description: 'The id of the event that caused it.' }),
    'caused_by',
  ),
};
const relative = z
  .object(shapesOf(relativeFields))
  .meta({ id: 'RelatedEvent', description: 'An event that led to this one, or that this one led to.' });
export type RelatedEvent = z.output<typeof relative>;

export const receiptFields = {
  provider: field(z.string(), 'provider'),
  webhookId: field(z.string().meta({ description: 'The provider’s id of the webhook.' }), 'event_id'),
  receivedAt: instant('received_at'),
  duplicates: field(shape.count.meta({ description: 'How often the provider sent it again.' }), 'duplicates'),
};
const receipt = z
  .object(shapesOf(receiptFields))
  .meta({ id: 'WebhookReceipt', description: 'The webhook that the first cause was received as.' });
export type Receipt = z.output<typeof receipt>;

export const eventFields = {
  eventId: field(deliveryFields.eventId.shape, 'event.id'),
  topic: field(shape.topic, 'event.topic'),
  subject: deliveryFields.subject,
  state: field(shape.state, eventState('event')),
  createdAt: instant('event.created_at'),
  producer: field(z.string(), 'event.producer'),
  version: field(z.int().positive(), 'event.version'),
  orderingKey: field(
    z.string().meta({ description: 'Empty if the whole topic is one lane.' }),
    'event.ordering_key',
  ),
  dedupeKey: field(z.string().nullable(), 'event.dedupe_key'),
  correlationId: field(z.string().nullable(), 'event.correlation_id'),
  causationId: field(z.string().nullable(), 'event.causation_id'),
  traceparent: field(z.string().nullable(), 'event.traceparent'),
};

export const eventView = z
  .object({
    generatedAt: shape.instant,
    event: z.object({ ...shapesOf(eventFields), ...payloadFields }),
    verdict: text.meta({ description: 'One sentence: where the event is, and why.' }),
    deliveries: z.array(delivery).meta({ description: 'One for each subscriber, by name.' }),
    webhook: receipt.nullable(),
    causes: z.array(relative).meta({ description: 'From the first cause to the last.' }),
    effects: z
      .array(relative)
      .meta({ description: 'The events that it caused, and those that these caused; oldest first.' }),
    areMoreEffects: z
      .boolean()
      .meta({ description: 'Whether there may be more effects than `effects` lists.' }),
  })
  .meta({ id: 'Event', description: 'One event with its deliveries, and why each of them waits.' });
export type EventView = z.output<typeof eventView>;
